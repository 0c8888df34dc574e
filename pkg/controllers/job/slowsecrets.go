package job

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
	"github.com/muster-sched/muster/pkg/controllers/worker"
	"github.com/muster-sched/muster/pkg/job/plugins/plugin"
)

// slowSecrets makes the data of Secrets that takes long to make, such as RSA keys. It makes one at a time, so that all use at most one
// processor, and namespaces take turns. Workers that sync Jobs do not wait for it: a Job is synced again when its data is made.
type slowSecrets struct {
	worker *worker.Worker
	made   func(key string) // called with the key of a Job whose data is made

	mu    sync.Mutex
	byJob map[string]*slowSecret // ns/name of the Job -> its Secret
}

// slowSecret is the Secret of one Job.
type slowSecret struct {
	job  types.UID
	slow *plugin.SlowSecret
	data map[string][]byte // nil until it is made
}

func newSlowSecrets(made func(key string)) *slowSecrets {
	s := &slowSecrets{made: made, byJob: map[string]*slowSecret{}}
	s.worker = worker.New("job-secrets", s)
	return s
}

// get returns the data of a Job's Secret; nil if it is not made yet. It is made then.
func (s *slowSecrets) get(job *batchv1alpha1.Job, slow *plugin.SlowSecret) map[string][]byte {
	key := keyOf(job)
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.byJob[key]
	if known == nil || known.job != job.UID || known.slow.Name != slow.Name {
		known = &slowSecret{job: job.UID, slow: slow}
		s.byJob[key] = known
	}
	if known.data == nil {
		s.worker.Enqueue(key)
	}
	return known.data
}

// forget drops the data for the Job with that key, made or not.
func (s *slowSecrets) forget(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byJob, key)
}

// Sync makes the data for the Job with that key, if it is still needed. It implements worker.Syncer.
func (s *slowSecrets) Sync(_ context.Context, key string) (time.Duration, error) {
	s.mu.Lock()
	known := s.byJob[key]
	isMade := known == nil || known.data != nil
	s.mu.Unlock()
	if isMade {
		return 0, nil
	}
	data, err := known.slow.Make()
	if err != nil {
		return 0, fmt.Errorf("making the data of Secret %s: %w", known.slow.Name, err)
	}
	s.mu.Lock()
	known.data = data
	s.mu.Unlock()
	s.made(key)
	return 0, nil
}
