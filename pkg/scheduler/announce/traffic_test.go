package announce

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func TestTrafficIsFromTheFirstRequestToTheLastAnswer(t *testing.T) {
	traffic := NewTraffic()
	isPause := func() bool {
		select {
		case <-traffic.Pause():
			return true
		default:
			return false
		}
	}
	asked, answer := make(chan bool), make(chan bool)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- isPause()
		<-answer
		w.WriteHeader(http.StatusNotFound)
	}))
	defer server.Close()
	plain := &rest.Config{Host: server.URL}
	client := func(config *rest.Config) kubernetes.Interface {
		client, err := kubernetes.NewForConfig(config)
		require.NoError(t, err)
		return client
	}
	done := make(chan error)
	get := func(client kubernetes.Interface) {
		_, err := client.CoreV1().Pods("ns").Get(t.Context(), "p", metav1.GetOptions{})
		done <- err
	}
	counted, another := client(traffic.Count(plain)), client(plain)

	go get(another)
	assert.True(t, <-asked, "a client of another configuration")
	answer <- true
	require.Error(t, <-done)
	require.True(t, isPause())

	go get(counted)
	assert.False(t, <-asked)
	go get(counted)
	assert.False(t, <-asked)
	answer <- true
	require.Error(t, <-done)
	assert.False(t, isPause(), "one is still under way")
	answer <- true
	require.Error(t, <-done, "what was not found is answered, too")
	assert.True(t, isPause())
}
