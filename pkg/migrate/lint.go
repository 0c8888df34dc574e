package migrate

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/muster-sched/muster/pkg/lint"
)

// Offline judges objects with the schemas and policies of the manifests, without a cluster.
type Offline struct {
	Rules *lint.Rules
	// Queues are those of the cluster. A queue is compared with its parent.
	Queues []*unstructured.Unstructured
}

// Judge implements Judge.
func (o Offline) Judge(ctx context.Context, object lint.Object) (refused, warnings []Remark, err error) {
	var known lint.Known
	if object.Content.GroupVersionKind().GroupKind() == queueKind {
		known.Params = o.Queues
	}
	report, err := o.Rules.Check(ctx, []lint.Object{object}, known)
	if err != nil {
		return nil, nil, err
	}
	for _, finding := range report.Findings {
		refused = append(refused, Remarked(finding.Field, finding.Message))
	}
	for _, finding := range report.Warnings {
		warnings = append(warnings, ignored(finding.Field, finding.Message))
	}
	return refused, warnings, nil
}

// Remarked is the remark that a message of the API server stands for. Fields that a schema does not have are dropped; everything else is
// refused.
func Remarked(field, message string) Remark {
	if strings.HasPrefix(message, "unknown field") {
		return Remark{Result: Ignored, Field: field, Message: message + ": the API server drops it", Lost: true}
	}
	return Remark{Result: Refused, Field: field, Message: message, Lost: true}
}

// Warned is the remark that a warning of the API server stands for; false for warnings about other things.
func Warned(warning string) (Remark, bool) {
	binding, message, found := strings.Cut(warning, "': ")
	if !found || !strings.HasPrefix(binding, "Validation failed for ValidatingAdmissionPolicy 'muster-") {
		return Remark{}, false
	}
	field, _, _ := strings.Cut(message, ": ")
	return ignored(field, message), true
}

// ignored is a remark on a field without effect.
func ignored(field, message string) Remark {
	return Remark{Result: Ignored, Field: field, Message: message, Lost: !isIgnoredByVolcano(field + ": " + message)}
}

// isIgnoredByVolcano says whether a warning is about a field that Volcano does not read either.
func isIgnoredByVolcano(message string) bool {
	return strings.Contains(message, "annotations of a template")
}
