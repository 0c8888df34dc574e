package served

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	genericapifilters "k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/request"

	historyv1alpha1 "github.com/muster-sched/muster/pkg/apis/history/v1alpha1"
	"github.com/muster-sched/muster/pkg/history"
)

const root = "/apis/history.muster.sh/v1alpha1"

// server serves seven records: job-0 to job-6, by turns of two namespaces. job-n ended n hours after midnight.
func server(t *testing.T) http.Handler {
	t.Helper()
	store := history.New(t.TempDir(), history.Limits{Bytes: history.LeastBytes})
	t.Cleanup(store.Close)
	for n := range 7 {
		require.NoError(t, store.Append(&historyv1alpha1.Record{
			Kind: historyv1alpha1.KindJob, Namespace: fmt.Sprint("team-", n%2), Name: fmt.Sprint("job-", n), UID: types.UID(fmt.Sprintf("%08d-rest", n)),
			User: fmt.Sprint("user-", n%3), Queue: "research", Phase: "Completed", Ended: metav1.NewTime(time.Date(2026, 1, 1, n, 0, 0, 0, time.UTC)), RunSeconds: 90,
		}))
	}
	return genericapifilters.WithRequestInfo(Handler(store), &request.RequestInfoFactory{APIPrefixes: sets.NewString("apis")})
}

// ask asks for a path with a method.
func ask(t *testing.T, handler http.Handler, method, path, accept string) (int, string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
	r.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func TestRecordsAreListed(t *testing.T) {
	handler := server(t)
	for path, want := range map[string][]string{
		"/jobrecords":                                                 {"job-6", "job-5", "job-4", "job-3", "job-2", "job-1", "job-0"},
		"/namespaces/team-1/jobrecords":                               {"job-5", "job-3", "job-1"},
		"/jobrecords?fieldSelector=record.user%3Duser-1":              {"job-4", "job-1"},
		"/jobrecords?fieldSelector=record.user%21%3Duser-1":           {"job-6", "job-5", "job-3", "job-2", "job-0"},
		"/jobrecords?since=2026-01-01T05:00:00Z":                      {"job-6", "job-5"},
		"/jobrecords?until=2026-01-01T02:00:00Z":                      {"job-1", "job-0"},
		"/namespaces/team-0/jobrecords?fieldSelector=record.name%3Dx": {},
		"/namespaces/none/jobrecords":                                 {},
	} {
		code, body := ask(t, handler, http.MethodGet, root+path, "application/json")
		require.Equal(t, http.StatusOK, code, "%s: %s", path, body)
		list := &historyv1alpha1.JobRecordList{}
		require.NoError(t, json.Unmarshal([]byte(body), list), body)
		names := []string{}
		for _, item := range list.Items {
			names = append(names, item.Record.Name)
		}
		assert.Equal(t, want, names, path)
		assert.Equal(t, "JobRecordList", list.Kind)
		assert.Empty(t, list.Continue)
	}
}

func TestAListGoesOn(t *testing.T) {
	handler, names, next := server(t), []string{}, ""
	for range 4 {
		code, body := ask(t, handler, http.MethodGet, root+"/jobrecords?limit=2&continue="+url.QueryEscape(next), "application/json")
		require.Equal(t, http.StatusOK, code, body)
		list := &historyv1alpha1.JobRecordList{}
		require.NoError(t, json.Unmarshal([]byte(body), list), body)
		for _, item := range list.Items {
			names = append(names, item.Name)
		}
		next = list.Continue
	}
	assert.Empty(t, next)
	assert.Equal(t, []string{"job-6-00000006", "job-5-00000005", "job-4-00000004", "job-3-00000003", "job-2-00000002", "job-1-00000001", "job-0-00000000"}, names)
}

func TestKubectlGetsATable(t *testing.T) {
	handler := server(t)
	for path, rows := range map[string]int{
		"/namespaces/team-1/jobrecords": 3, "/namespaces/none/jobrecords": 0, "/namespaces/team-1/jobrecords/job-3-00000003": 1,
	} {
		code, body := ask(t, handler, http.MethodGet, root+path, "application/json;as=Table;v=v1;g=meta.k8s.io,application/json")
		require.Equal(t, http.StatusOK, code, body)
		table := &metav1.Table{}
		require.NoError(t, json.Unmarshal([]byte(body), table), body)
		assert.Equal(t, "Table", table.Kind)
		require.Len(t, table.Rows, rows)
		for _, row := range table.Rows {
			assert.Len(t, row.Cells, len(table.ColumnDefinitions))
		}
	}
}

func TestSumsAreAnswered(t *testing.T) {
	code, body := ask(t, server(t), http.MethodGet, root+"/namespaces/team-0/jobrecords?by=user", "application/json")
	require.Equal(t, http.StatusOK, code, body)
	report := &historyv1alpha1.JobReport{}
	require.NoError(t, json.Unmarshal([]byte(body), report))
	assert.Equal(t, []historyv1alpha1.ReportRow{
		{Name: "user-0", Jobs: 2, Succeeded: 2, RunSeconds: 180}, {Name: "user-1", Jobs: 1, Succeeded: 1, RunSeconds: 90}, {Name: "user-2", Jobs: 1, Succeeded: 1, RunSeconds: 90},
	}, report.Rows)
}

func TestARecordIsRead(t *testing.T) {
	handler := server(t)
	code, body := ask(t, handler, http.MethodGet, root+"/namespaces/team-1/jobrecords/job-3-00000003", "application/json")
	require.Equal(t, http.StatusOK, code, body)
	assert.Contains(t, body, `"kind":"JobRecord"`)
	code, body = ask(t, handler, http.MethodGet, root+"/namespaces/team-0/jobrecords/job-3-00000003", "application/json")
	assert.Equal(t, http.StatusNotFound, code, "it is in another namespace: %s", body)
}

func TestTheAPIDescribesItself(t *testing.T) {
	handler := server(t)
	code, body := ask(t, handler, http.MethodGet, root, "application/json")
	require.Equal(t, http.StatusOK, code)
	assert.JSONEq(t, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"history.muster.sh/v1alpha1","resources":[
		{"name":"jobrecords","singularName":"jobrecord","namespaced":true,"kind":"JobRecord","verbs":["get","list"]}]}`, body)
	code, _ = ask(t, handler, http.MethodGet, "/apis/history.muster.sh/v2", "application/json")
	assert.Equal(t, http.StatusNotFound, code)
}

func TestWrongRequestsAreRefused(t *testing.T) {
	handler := server(t)
	for _, c := range []struct {
		method, path string
		code         int
		says         string
	}{
		{http.MethodPost, "/namespaces/team-0/jobrecords", http.StatusMethodNotAllowed, "create is not supported"},
		{http.MethodDelete, "/namespaces/team-0/jobrecords/job-0-00000000", http.StatusMethodNotAllowed, "delete is not supported"},
		{http.MethodGet, "/namespaces/team-0/jobrecords?watch=true", http.StatusMethodNotAllowed, "watch is not supported"},
		{http.MethodGet, "/watch/jobrecords", http.StatusMethodNotAllowed, "watch is not supported"},
		{http.MethodGet, "/namespaces/team-0/jobs", http.StatusNotFound, "not found"},
		{http.MethodGet, "/namespaces/team-0/jobrecords/job-0-00000000/status", http.StatusNotFound, "not found"},
		{http.MethodGet, "/jobrecords?labelSelector=a%3Db", http.StatusBadRequest, "records have no labels"},
		{http.MethodGet, "/jobrecords?fieldSelector=record.color%3Dred", http.StatusBadRequest, `\"record.color\" is none of the fields`},
		{http.MethodGet, "/jobrecords?since=yesterday", http.StatusBadRequest, `since: \"yesterday\" is no time`},
		{http.MethodGet, "/jobrecords?limit=-1", http.StatusBadRequest, "limit"},
		{http.MethodGet, "/jobrecords?continue=nonsense", http.StatusBadRequest, "metadata.continue"},
		{http.MethodGet, "/jobrecords?by=moon", http.StatusBadRequest, "none of user, queue and namespace"},
	} {
		code, body := ask(t, handler, c.method, root+c.path, "application/json")
		assert.Equal(t, c.code, code, "%s %s: %s", c.method, c.path, body)
		assert.Contains(t, body, c.says, c.path)
	}
}
