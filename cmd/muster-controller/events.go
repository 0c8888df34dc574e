package main

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"

	"github.com/muster-sched/muster/pkg/text"
)

// boundedRecorder bounds what events repeat of users, and of what the API server says of their objects.
type boundedRecorder struct{ record.EventRecorder }

// Event implements record.EventRecorder.
func (r boundedRecorder) Event(object runtime.Object, kind, reason, message string) {
	r.EventRecorder.Event(object, kind, text.Cut(reason, text.MaxReason), text.Cut(message, text.MaxMessage))
}

// Eventf implements record.EventRecorder.
func (r boundedRecorder) Eventf(object runtime.Object, kind, reason, format string, args ...any) {
	r.Event(object, kind, reason, fmt.Sprintf(format, args...))
}

// AnnotatedEventf implements record.EventRecorder.
func (r boundedRecorder) AnnotatedEventf(object runtime.Object, annotations map[string]string, kind, reason, format string, args ...any) {
	message := text.Cut(fmt.Sprintf(format, args...), text.MaxMessage)
	r.EventRecorder.AnnotatedEventf(object, annotations, kind, text.Cut(reason, text.MaxReason), "%s", message)
}
