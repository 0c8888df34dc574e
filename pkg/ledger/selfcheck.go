package ledger

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"
)

// selfCheckPeriod is how often books are compared with the API.
const selfCheckPeriod = time.Minute

// SelfCheck compares a program's books with the API until the context ends, and publishes the differences. differing returns the pods that
// differ, and totals beside those of the ledger. A pod counts when it differs twice in a row: some events are always still to come. Totals are
// compared with the sums of their charges, so they never may differ.
func (l *Ledger) SelfCheck(ctx context.Context, drift *metrics.Gauge, differing func() (pods sets.Set[types.UID], totals []string)) {
	logger := klog.FromContext(ctx)
	var last sets.Set[types.UID]
	wait.UntilWithContext(ctx, func(context.Context) {
		pods, totals := differing()
		totals = append(totals, l.Differing()...)
		lasting := pods.Intersection(last)
		last = pods
		drift.Set(float64(lasting.Len() + len(totals)))
		if lasting.Len() > 0 {
			logger.Error(nil, "The books differ from the API", "pods", lasting.Len(), "example", sets.List(lasting)[0])
		}
		if len(totals) > 0 {
			logger.Error(nil, "Totals of the books are not the sums of their charges", "totals", totals)
		}
	}, selfCheckPeriod)
}
