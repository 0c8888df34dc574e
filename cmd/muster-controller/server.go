package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	genericapifilters "k8s.io/apiserver/pkg/endpoints/filters"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	genericfilters "k8s.io/apiserver/pkg/server/filters"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/apiserver/pkg/server/routes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/muster-sched/muster/pkg/history/served"
)

// lastRequests is how long requests under way get at the stop.
const lastRequests = 2 * time.Second

// serve answers for health and metrics until the context ends; wait returns when it has stopped.
func serve(ctx context.Context, cfg *config, live, ready []healthz.HealthChecker) (wait func(), err error) {
	if cfg.serving == nil {
		return func() {}, nil
	}
	stopped, _, err := cfg.serving.Serve(guarded(cfg, endpoints(cfg, live, ready)), lastRequests, ctx.Done())
	if err != nil {
		return nil, fmt.Errorf("serving on the secure port: %w", err)
	}
	return func() { <-stopped }, nil
}

func endpoints(cfg *config, live, ready []healthz.HealthChecker) http.Handler {
	paths := mux.NewPathRecorderMux(programName)
	healthz.InstallHandler(paths, live...)
	healthz.InstallLivezHandler(paths, live...)
	healthz.InstallReadyzHandler(paths, ready...)
	paths.Handle("/metrics", legacyregistry.HandlerWithReset())
	if cfg.records != nil {
		paths.HandlePrefix(served.Prefix, served.Handler(cfg.records))
	}
	if cfg.profiling {
		routes.Profiling{}.Install(paths)
	}
	return paths
}

// guarded serves clients that the API server knows and allows; health is open to everyone.
func guarded(cfg *config, handler http.Handler) http.Handler {
	requests := &apirequest.RequestInfoFactory{APIPrefixes: sets.NewString("apis")}
	handler = genericapifilters.WithAuthorization(handler, cfg.authorization.Authorizer, scheme.Codecs)
	handler = genericapifilters.WithAuthentication(handler, cfg.authentication.Authenticator,
		genericapifilters.Unauthorized(scheme.Codecs), nil, nil)
	handler = genericapifilters.WithRequestInfo(handler, requests)
	handler = genericapifilters.WithCacheControl(handler)
	handler = genericfilters.WithHTTPLogging(handler)
	return genericfilters.WithPanicRecovery(handler, requests)
}

// informersReady is a check that fails until everything that exists has been seen.
func informersReady(synced func() bool) healthz.HealthChecker {
	return healthz.NamedCheck("informers", func(*http.Request) error {
		if !synced() {
			return fmt.Errorf("informers have not synced yet")
		}
		return nil
	})
}
