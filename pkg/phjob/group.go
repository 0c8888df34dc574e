package phjob

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	primehubv1alpha1 "github.com/muster-sched/muster/pkg/apis/primehub/v1alpha1"
	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
)

// DatasetType says what a dataset is.
type DatasetType string

// The types of datasets.
const (
	// DatasetPV is a PersistentVolumeClaim.
	DatasetPV DatasetType = "pv"
	// DatasetGit is a PersistentVolumeClaim in which something keeps a copy of a git repository. Jobs read it only.
	DatasetGit DatasetType = "git"
	// DatasetNFS is a folder of an NFS server.
	DatasetNFS DatasetType = "nfs"
	// DatasetEnv is a set of environment variables.
	DatasetEnv DatasetType = "env"
)

// Dataset is data that the jobs of a group get, as the annotation of its Queue lists it.
type Dataset struct {
	// Name of the dataset.
	Name string `json:"name"`
	// Type says what it is.
	Type DatasetType `json:"type"`
	// VolumeName is the claim of a pv or git dataset.
	VolumeName string `json:"volumeName,omitempty"`
	// ReadOnly keeps jobs from changing a pv or nfs dataset.
	ReadOnly bool `json:"readOnly,omitempty"`
	// Server and Path belong to an nfs dataset.
	Server string `json:"server,omitempty"`
	Path   string `json:"path,omitempty"`
	// Variables belong to an env dataset.
	Variables map[string]string `json:"variables,omitempty"`
}

// Group is what a Queue says about the group that it is.
type Group struct {
	// Queue is the name of the Queue.
	Queue string
	// Volumes are the groups whose volumes the jobs mount.
	Volumes []string
	// Datasets are the data that the jobs get.
	Datasets []Dataset
}

// FindQueue returns the Queue of a PhJob's group. It looks for its identifier first, and then for its name.
func FindQueue(queues []*schedulingv1beta1.Queue, spec *primehubv1alpha1.PhJobSpec) (*schedulingv1beta1.Queue, error) {
	byID := withLabel(queues, primehubv1alpha1.GroupIDLabel, spec.GroupID)
	if len(byID) == 0 {
		byID = withLabel(queues, primehubv1alpha1.GroupNameLabel, spec.GroupName)
	}
	switch {
	case len(byID) == 0:
		return nil, fmt.Errorf("cannot get group info: Group not found: %s. An administrator gives its Queue the label %s or %s",
			spec.GroupName, primehubv1alpha1.GroupIDLabel, primehubv1alpha1.GroupNameLabel)
	case len(byID) > 1:
		return nil, fmt.Errorf("cannot get group info: queues %q and %q have the labels of group %s, and only one may",
			byID[0].Name, byID[1].Name, spec.GroupName)
	}
	queue := byID[0]
	if name, named := queue.Labels[primehubv1alpha1.GroupNameLabel]; named && name != primehubv1alpha1.LabelOf(spec.GroupName) {
		return nil, fmt.Errorf("cannot get group info: groupName is %q, but the group of queue %q, which groupId asks for, is %q",
			spec.GroupName, queue.Name, name)
	}
	return queue, nil
}

// withLabel returns the Queues that have a label for a name, by their own names.
func withLabel(queues []*schedulingv1beta1.Queue, label, name string) []*schedulingv1beta1.Queue {
	if name == "" {
		return nil
	}
	var found []*schedulingv1beta1.Queue
	for _, queue := range queues {
		if value, has := queue.Labels[label]; has && value == primehubv1alpha1.LabelOf(name) {
			found = append(found, queue)
		}
	}
	slices.SortFunc(found, func(a, b *schedulingv1beta1.Queue) int { return strings.Compare(a.Name, b.Name) })
	return found
}

// GroupOf reads what a Queue says about its group.
func GroupOf(queue *schedulingv1beta1.Queue) (Group, error) {
	group := Group{Queue: queue.Name, Volumes: listed(queue.Annotations[primehubv1alpha1.GroupVolumesAnnotation])}
	text := queue.Annotations[primehubv1alpha1.DatasetsAnnotation]
	if text == "" {
		return group, nil
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&group.Datasets); err != nil {
		return group, fmt.Errorf("annotation %s of queue %q: %w", primehubv1alpha1.DatasetsAnnotation, queue.Name, err)
	}
	for i := range group.Datasets {
		if err := group.Datasets[i].validate(); err != nil {
			return group, fmt.Errorf("annotation %s of queue %q: dataset %q: %w", primehubv1alpha1.DatasetsAnnotation, queue.Name, group.Datasets[i].Name, err)
		}
	}
	return group, nil
}

func (d *Dataset) validate() error {
	if len(validation.IsDNS1123Label("dataset-"+d.Name)) > 0 || d.Name == "" {
		return errors.New("its name must have only lower-case letters, digits and dashes, and at most 55 of them")
	}
	switch d.Type {
	case DatasetPV, DatasetGit:
		if d.VolumeName == "" {
			return errors.New("volumeName must name a claim")
		}
	case DatasetNFS:
		if d.Server == "" || d.Path == "" {
			return errors.New("server and path must not be empty")
		}
	case DatasetEnv:
	default:
		return fmt.Errorf("type is %q: use pv, git, nfs or env", d.Type)
	}
	return nil
}

// listed splits a list at its commas.
func listed(text string) []string {
	var items []string
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}
