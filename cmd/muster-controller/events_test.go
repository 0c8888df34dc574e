package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
)

func TestEventsAreBounded(t *testing.T) {
	fake := record.NewFakeRecorder(3)
	recorder := boundedRecorder{fake}
	long := strings.Repeat("x", 2000)
	recorder.Event(&corev1.Pod{}, "Normal", long, long)
	recorder.Eventf(&corev1.Pod{}, "Normal", "R", "%s", long)
	recorder.AnnotatedEventf(&corev1.Pod{}, nil, "Normal", "R", "%s", long)
	assert.Len(t, <-fake.Events, len("Normal  ")+128+1024)
	assert.Len(t, <-fake.Events, len("Normal R ")+1024)
	assert.Len(t, <-fake.Events, len("Normal R ")+1024)
}
