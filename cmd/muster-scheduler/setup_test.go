package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	schedulerconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"
	"k8s.io/kubernetes/pkg/scheduler"

	mustertesting "github.com/muster-sched/muster/pkg/testing"
)

// TestTheSchedulersPodsComeFromOneInformer: all who ask the factory for pods share the informer that tells them apart.
func TestTheSchedulersPodsComeFromOneInformer(t *testing.T) {
	client := fake.NewSimpleClientset()
	own := scheduler.NewInformerFactory(client, 0, nil)
	factory := tellApart(own, client, nil)
	assert.IsType(t, podInformer{}, factory.InformerFor(&corev1.Pod{}, nil))
	require.NoError(t, own.Core().V1().Pods().Informer().GetStore().Add(mustertesting.MakePod("p").Namespace("ns").Obj()))
	_, err := factory.Core().V1().Pods().Lister().Pods("ns").Get("p")
	require.NoError(t, err)
}

// TestEventsOfBoundPodsGiveWayToBindings: while a request of the scheduler's client is under way, they wait, and others do not.
func TestEventsOfBoundPodsGiveWayToBindings(t *testing.T) {
	const n = 50
	bindings, answer, events := make(chan bool), make(chan bool), make(chan string, n+1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		if strings.HasSuffix(r.URL.Path, "/binding") {
			bindings <- true
			<-answer
			w.WriteHeader(http.StatusConflict)
			return
		}
		events <- string(body)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, err = w.Write(body)
		assert.NoError(t, err)
	}))
	defer server.Close()
	base := &schedulerconfig.Config{KubeConfig: &rest.Config{Host: server.URL, QPS: -1}}
	broadcaster, err := announcePatiently(t.Context(), base)
	require.NoError(t, err)
	recorder := broadcaster.NewRecorder(scheme.Scheme, "test")

	done := make(chan error)
	go func() {
		done <- base.Client.CoreV1().Pods("ns").Bind(t.Context(), &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "p"}}, metav1.CreateOptions{})
	}()
	<-bindings
	for i := range n {
		pod := mustertesting.MakePod("bound").Namespace("ns").UID(fmt.Sprint(i)).Obj()
		recorder.Eventf(pod, nil, corev1.EventTypeNormal, "Scheduled", "Binding", "assigned")
	}
	recorder.Eventf(mustertesting.MakePod("waits").Namespace("ns").Obj(), nil, corev1.EventTypeWarning, "FailedScheduling", "Scheduling", "no room")
	seen := 0
	for !strings.Contains(<-events, "FailedScheduling") {
		seen++
	}
	assert.Less(t, seen, n, "some go, so that people see progress")
	answer <- true
	require.Error(t, <-done)
	for ; seen < n; seen++ {
		assert.Contains(t, <-events, "Scheduled")
	}
}
