package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/server/healthz"
)

// parse runs the flags through the command without starting anything.
func parse(t *testing.T, args ...string) (*options, error) {
	t.Helper()
	o := newOptions()
	flags := o.flagSets()
	cmd := newCommand()
	cmd.ResetFlags()
	for _, set := range flags.FlagSets {
		cmd.Flags().AddFlagSet(set)
	}
	if err := cmd.ParseFlags(args); err != nil {
		return nil, err
	}
	return o, utilerrors.NewAggregate(o.validate())
}

func TestDefaultsAreValid(t *testing.T) {
	o, err := parse(t)
	require.NoError(t, err)
	assert.Equal(t, "muster", o.schedulerName)
	assert.Equal(t, 10268, o.serving.BindPort)
	assert.Equal(t, "muster-system", o.leaderElection.ResourceNamespace)
}

func TestValuesAreRefusedByName(t *testing.T) {
	tests := map[string]struct {
		args []string
		want string
	}{
		"unknown flag":        {[]string{"--no-such-flag"}, "unknown flag: --no-such-flag"},
		"not a number":        {[]string{"--concurrent-job-syncs=many"}, `invalid argument "many" for "--concurrent-job-syncs"`},
		"no workers":          {[]string{"--concurrent-job-syncs=0"}, "--concurrent-job-syncs: 0 must be at least 1"},
		"no status writers":   {[]string{"--concurrent-podgroup-syncs=-1"}, "--concurrent-podgroup-syncs: -1 must be at least 1"},
		"no requests":         {[]string{"--kube-api-qps=0"}, "--kube-api-qps: 0 must be greater than 0"},
		"no burst":            {[]string{"--kube-api-burst=0"}, "--kube-api-burst: 0 must be at least 1"},
		"negative overcommit": {[]string{"--overcommit-factor=-1"}, "--overcommit-factor: -1 must not be negative"},
		"negative patience":   {[]string{"--hold-timeout=-1s"}, "--hold-timeout: -1s must not be negative"},
		"negative back-off":   {[]string{"--restart-backoff=-1s"}, "--restart-backoff: -1s must be between 0s and 1h"},
		"long back-off":       {[]string{"--restart-backoff=61m"}, "--restart-backoff: 1h1m0s must be between 0s and 1h"},
		"negative overtaking": {[]string{"--max-overtake-time=-1s"}, "--max-overtake-time: -1s must not be negative"},
		"no such condition":   {[]string{"--depends-on-condition=Done"}, `--depends-on-condition: "Done" must be Completed or Ready`},
		"not served":          {[]string{"--scheduler-name=other"}, `--scheduler-name: "other" must be one of --served-scheduler-names`},
		"not a name":          {[]string{"--served-scheduler-names=muster,A B"}, `scheduler name "A B": a lowercase RFC 1123 subdomain`},
		"lease too short":     {[]string{"--leader-elect-lease-duration=1s"}, "--leader-elect-lease-duration: must be greater"},
		"deadline too short":  {[]string{"--leader-elect-renew-deadline=1s"}, "--leader-elect-renew-deadline: must be greater"},
		"no retries":          {[]string{"--leader-elect-retry-period=0"}, "--leader-elect-retry-period: must be greater than 0"},
		"other locks":         {[]string{"--leader-elect-resource-lock=configmaps"}, `--leader-elect-resource-lock: "configmaps" is not supported`},
		"no lease":            {[]string{"--leader-elect-resource-name="}, "--leader-elect-resource-name and"},
		"small history":       {[]string{"--history-max-size=1Mi"}, "--history-max-size: 1Mi must be at least 32Mi"},
		"no size":             {[]string{"--history-max-size=much"}, "quantities must match"},
		"negative age":        {[]string{"--history-max-age=-1h"}, "--history-max-age: -1h0m0s must not be negative"},
		"no such port":        {[]string{"--secure-port=70000"}, "--secure-port"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := parse(t, test.args...)
			assert.ErrorContains(t, err, test.want)
		})
	}
}

// TestThePageOfFlags: the page has all flags that are the controller's own, with their defaults.
func TestThePageOfFlags(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/flags.md")
	require.NoError(t, err)
	rows := map[string]string{} // flag -> default
	for _, line := range strings.Split(string(page), "\n") {
		if cells := strings.Split(line, "|"); len(cells) > 3 {
			rows[strings.Trim(cells[1], " `-")] = strings.Trim(cells[2], " `")
		}
	}
	o, own := newOptions(), pflag.NewFlagSet("own", pflag.ContinueOnError)
	o.addClientFlags(own)
	o.addControllerFlags(own)
	o.history.addFlags(own)
	own.VisitAll(func(f *pflag.Flag) {
		value := strings.Replace(strings.Trim(f.DefValue, "[]"), "m0s", "m", 1)
		row, ok := rows[f.Name]
		assert.True(t, ok, "--%s is missing", f.Name)
		assert.Equal(t, value, row, "--%s", f.Name)
	})
}

func TestWithoutLeaderElectionItsTimesDoNotMatter(t *testing.T) {
	_, err := parse(t, "--leader-elect=false", "--leader-elect-lease-duration=1s")
	assert.NoError(t, err)
}

func TestReadyOnlyOnceInformersHaveSynced(t *testing.T) {
	synced := false
	handler := endpoints(&config{options: newOptions()}, []healthz.HealthChecker{healthz.PingHealthz},
		[]healthz.HealthChecker{healthz.PingHealthz, informersReady(func() bool { return synced })})
	get := func(path string) int {
		response := httptest.NewRecorder()
		handler.ServeHTTP(response, httptest.NewRequest(http.MethodGet, path, nil))
		_, _ = io.Copy(io.Discard, response.Body)
		return response.Code
	}
	assert.Equal(t, http.StatusOK, get("/livez"))
	assert.Equal(t, http.StatusOK, get("/healthz"))
	assert.Equal(t, http.StatusInternalServerError, get("/readyz"))
	synced = true
	assert.Equal(t, http.StatusOK, get("/readyz"))
	assert.Equal(t, http.StatusOK, get("/metrics"))
}
