package main

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/muster-sched/muster/pkg/history"
)

// historyOptions say whether and where the history of Jobs is kept.
type historyOptions struct {
	dir     string
	maxSize resource.Quantity
	maxAge  time.Duration
	log     bool
}

func (o *historyOptions) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.dir, "history-dir", o.dir, "Folder that keeps a record of each Job and PhJob that has ended, on a volume that all replicas share. "+
		"Empty keeps none.")
	fs.Var(&quantity{&o.maxSize}, "history-max-size", "Size of the history, such as 512Mi. The oldest records are deleted beyond it.")
	fs.DurationVar(&o.maxAge, "history-max-age", o.maxAge, "Age after which records of the history are deleted. 0 deletes none because of its age.")
	fs.BoolVar(&o.log, "history-log", o.log, "Print each record of the history to standard output, as a line of JSON, with a folder or without.")
}

func (o *historyOptions) validate() []error {
	var errs []error
	if o.maxSize.Value() < history.LeastBytes {
		errs = append(errs, fmt.Errorf("--history-max-size: %s must be at least %s", o.maxSize.String(), resource.NewQuantity(history.LeastBytes, resource.BinarySI)))
	}
	if o.maxAge < 0 {
		errs = append(errs, fmt.Errorf("--history-max-age: %s must not be negative", o.maxAge))
	}
	return errs
}

// store is the history in the folder; nil without a folder.
func (o *historyOptions) store() *history.Store {
	if o.dir == "" {
		return nil
	}
	return history.New(o.dir, history.Limits{Bytes: o.maxSize.Value(), Age: o.maxAge})
}

// quantity is a resource.Quantity as the value of a flag.
type quantity struct{ *resource.Quantity }

// Set implements pflag.Value.
func (q *quantity) Set(text string) (err error) {
	*q.Quantity, err = resource.ParseQuantity(text)
	return err
}

// Type implements pflag.Value.
func (*quantity) Type() string { return "quantity" }
