// Package phjob holds the rules of PhJobs: config.go, group.go and preset.go read its configuration, group, image and instance type. pod.go
// makes the PodGroup and the pod, and decide.go the next status. It is pure.
package phjob

import (
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"
)

// Config is what an administrator says about all PhJobs, in a YAML file with PrimeHub's names.
type Config struct {
	// JobSubmission is about jobs.
	JobSubmission JobSubmission `json:"jobSubmission"`
	// PHFSEnabled mounts the folder of the group in PHFSPVC at /phfs.
	PHFSEnabled bool `json:"phfsEnabled"`
	// PHFSPVC is the name of the claim of PrimeHub's file system.
	PHFSPVC string `json:"phfsPVC"`
	// Timezone is the time zone of PhSchedules, such as Asia/Taipei.
	Timezone string `json:"timezone"`
}

// JobSubmission is what an administrator says about jobs.
type JobSubmission struct {
	// WorkingDirSize is the most that the working directory holds.
	WorkingDirSize resource.Quantity `json:"workingDirSize"`
	// WorkingDir is the path of the working directory.
	WorkingDir string `json:"workingDir"`
	// DefaultActiveDeadlineSeconds is how long a job may run that does not say. 0 means any time.
	DefaultActiveDeadlineSeconds int64 `json:"defaultActiveDeadlineSeconds"`
	// DefaultTTLSecondsAfterFinished is how long the pod of a job is kept that does not say. 0 keeps it.
	DefaultTTLSecondsAfterFinished int32 `json:"defaultTTLSecondsAfterFinished"`
	// StartTimeoutSeconds is how long a pod may take to run before its job goes back to the queue.
	StartTimeoutSeconds int64 `json:"startTimeoutSeconds"`
	// JobTTLSeconds is how long the record of a job is kept that has ended. 0 keeps it.
	JobTTLSeconds int64 `json:"jobTTLSeconds"`
	// JobLimit is how many PhJobs of a namespace are kept: above that the oldest that have ended are deleted. 0 keeps all.
	JobLimit int `json:"jobLimit"`
	// NodeSelector of all jobs.
	NodeSelector map[string]string `json:"nodeSelector"`
	// Affinity of all jobs.
	Affinity *corev1.Affinity `json:"affinity"`
	// Tolerations of all jobs.
	Tolerations []corev1.Toleration `json:"tolerations"`
}

// DefaultConfig is what holds where the administrator says nothing.
func DefaultConfig() *Config {
	return &Config{
		Timezone: "UTC",
		JobSubmission: JobSubmission{
			WorkingDirSize:                 resource.MustParse("5Gi"),
			WorkingDir:                     "/workingdir",
			DefaultActiveDeadlineSeconds:   86400,
			DefaultTTLSecondsAfterFinished: 604800,
			StartTimeoutSeconds:            180,
		},
	}
}

// ParseConfig reads a configuration, and fills in defaults. A key that it does not know, or a value that makes no sense, is an error that
// names it.
func ParseConfig(text []byte) (*Config, error) {
	cfg := DefaultConfig()
	if err := yaml.UnmarshalStrict(text, cfg); err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	return cfg, cfg.validate()
}

func (c *Config) validate() error {
	var errs []error
	refuse := func(field, remedy string) { errs = append(errs, fmt.Errorf("%s %s", field, remedy)) }
	s := &c.JobSubmission
	if s.WorkingDirSize.Sign() <= 0 {
		refuse("jobSubmission.workingDirSize", "must be greater than 0, such as 5Gi")
	}
	if len(s.WorkingDir) < 2 || s.WorkingDir[0] != '/' {
		refuse("jobSubmission.workingDir", "must be an absolute path below /, such as /workingdir")
	}
	if s.StartTimeoutSeconds < 1 {
		refuse("jobSubmission.startTimeoutSeconds", "must be at least 1")
	}
	for field, n := range map[string]int64{
		"defaultActiveDeadlineSeconds":   s.DefaultActiveDeadlineSeconds,
		"defaultTTLSecondsAfterFinished": int64(s.DefaultTTLSecondsAfterFinished),
		"jobTTLSeconds":                  s.JobTTLSeconds,
		"jobLimit":                       int64(s.JobLimit),
	} {
		if n < 0 {
			refuse("jobSubmission."+field, "must not be negative; 0 switches it off")
		}
	}
	if c.PHFSEnabled && c.PHFSPVC == "" {
		refuse("phfsPVC", "must name the claim of PrimeHub's file system, as phfsEnabled is true")
	}
	if _, err := time.LoadLocation(c.Timezone); err != nil {
		refuse("timezone", fmt.Sprintf("must be a time zone such as UTC or Asia/Taipei: %v", err))
	}
	return errors.Join(errs...)
}
