package validation

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	batchv1alpha1 "github.com/muster-sched/muster/pkg/apis/batch/v1alpha1"
)

// validateDependencies checks that the tasks wait only for tasks that exist, and never for each other.
func validateDependencies(spec *batchv1alpha1.JobSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	waitsFor := map[string][]string{} // task -> tasks that it waits for
	for i := range spec.Tasks {
		waitsFor[spec.Tasks[i].Name] = nil
	}
	for i := range spec.Tasks {
		task := &spec.Tasks[i]
		if task.DependsOn == nil {
			continue
		}
		for n, name := range task.DependsOn.Name {
			if _, exists := waitsFor[name]; !exists {
				errs = append(errs, field.Invalid(path.Index(i).Child("dependsOn", "name").Index(n), name,
					notADAG+": no task has this name"))
				continue
			}
			waitsFor[task.Name] = append(waitsFor[task.Name], name)
		}
	}
	if circle := findCircle(spec, waitsFor); circle != nil {
		errs = append(errs, field.Invalid(path, strings.Join(circle, " -> "), notADAG+": these tasks wait for each other"))
	}
	return errs
}

const notADAG = "job has dependencies between tasks, but doesn't form a directed acyclic graph(DAG)"

// findCircle returns the tasks of a circle, the first again at its end, or nil if there is none.
func findCircle(spec *batchv1alpha1.JobSpec, waitsFor map[string][]string) []string {
	const onTheWay, done = 1, 2
	state := map[string]int{}
	var way []string
	var follow func(task string) []string
	follow = func(task string) []string {
		way = append(way, task)
		state[task] = onTheWay
		for _, next := range waitsFor[task] {
			switch state[next] {
			case onTheWay:
				return append(way[position(way, next):], next)
			case 0:
				if circle := follow(next); circle != nil {
					return circle
				}
			}
		}
		state[task] = done
		way = way[:len(way)-1]
		return nil
	}
	for i := range spec.Tasks {
		if state[spec.Tasks[i].Name] == 0 {
			if circle := follow(spec.Tasks[i].Name); circle != nil {
				return circle
			}
		}
	}
	return nil
}

func position(list []string, wanted string) int {
	for i, one := range list {
		if one == wanted {
			return i
		}
	}
	panic(fmt.Sprintf("%q is not on the way", wanted))
}
