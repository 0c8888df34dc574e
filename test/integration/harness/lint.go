package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/muster-sched/muster/manifests"
	"github.com/muster-sched/muster/pkg/lint"
)

// Linter asks lint what an API server was asked, and compares the answers.
type Linter struct {
	rules  *lint.Rules
	client dynamic.Interface
	kube   kubernetes.Interface
}

// NewLinter returns a Linter that knows the queues and namespaces of an API server.
func NewLinter(config *rest.Config) (*Linter, error) {
	rules, err := lint.Load(manifests.FS)
	if err != nil {
		return nil, fmt.Errorf("loading the rules: %w", err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return &Linter{rules, client, kube}, nil
}

// Ask lints an object, which is nothing but JSON. It takes the place of the old one, or is created if that is nil.
func (l *Linter) Ask(ctx context.Context, object, old map[string]any) (lint.Report, error) {
	known, err := l.known(ctx)
	if err != nil {
		return lint.Report{}, err
	}
	if old != nil {
		objects, err := read(old)
		if err != nil {
			return lint.Report{}, err
		}
		known.Old = append(known.Old, objects[0].Content)
	}
	objects, err := read(object)
	if err != nil {
		return lint.Report{}, err
	}
	return l.rules.Check(ctx, objects, known)
}

// known asks the API server what rules compare with.
func (l *Linter) known(ctx context.Context) (lint.Known, error) {
	known := lint.Known{Old: []*unstructured.Unstructured{}}
	queues := schema.GroupVersionResource{Group: "scheduling.volcano.sh", Version: "v1beta1", Resource: "queues"}
	all, err := l.client.Resource(queues).List(ctx, metav1.ListOptions{})
	if err != nil {
		return known, fmt.Errorf("listing queues: %w", err)
	}
	for i := range all.Items {
		known.Params = append(known.Params, &all.Items[i])
	}
	namespaces, err := l.kube.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	if err != nil {
		return known, fmt.Errorf("listing namespaces: %w", err)
	}
	for i := range namespaces.Items {
		if namespace := &namespaces.Items[i]; namespace.Name == metav1.NamespaceDefault {
			known.Namespaces = append([]*corev1.Namespace{namespace}, known.Namespaces...)
		} else {
			known.Namespaces = append(known.Namespaces, namespace)
		}
	}
	return known, nil
}

func read(object map[string]any) ([]lint.Object, error) {
	text, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("writing the object: %w", err)
	}
	return lint.Read("object", text)
}

// Disagreement says where lint and the API server differ. It is empty if they agree: both take the object, or lint finds all that the API
// server objects to. Lint need not find what it says it did not check.
func Disagreement(report lint.Report, said error) string {
	if said == nil {
		if len(report.Findings) > 0 {
			return fmt.Sprintf("the API server took it, and lint finds %+v", report.Findings)
		}
		return ""
	}
	objections, err := Objections(said)
	if err != nil {
		return err.Error()
	}
	for _, objection := range objections {
		if !finds(report, objection) {
			return fmt.Sprintf("the API server objects to %q: %s\nand lint finds only %+v, unchecked %+v",
				objection.Field, objection.Message, report.Findings, report.NotChecked)
		}
	}
	return ""
}

// Objections are what an API server refuses an object for: at least one. It fails if the error is no answer of an API server.
func Objections(said error) ([]metav1.StatusCause, error) {
	var status *apierrors.StatusError
	if !errors.As(said, &status) {
		return nil, fmt.Errorf("not an answer of the API server: %w", said)
	}
	if _, fields, strict := strings.Cut(status.ErrStatus.Message, "strict decoding error: "); strict {
		var found []metav1.StatusCause
		for _, field := range strings.Split(fields, ", ") {
			found = append(found, metav1.StatusCause{Message: field})
		}
		return found, nil
	}
	if status.ErrStatus.Details == nil || len(status.ErrStatus.Details.Causes) == 0 {
		return []metav1.StatusCause{{Message: status.ErrStatus.Message}}, nil
	}
	return status.ErrStatus.Details.Causes, nil
}

// finds says whether lint reports an objection, or says that it did not check the policy that made it.
func finds(report lint.Report, objection metav1.StatusCause) bool {
	for _, left := range report.NotChecked {
		if strings.Contains(objection.Message, "'"+left.Rule+"'") {
			return true
		}
	}
	field := strings.Replace(objection.Field, "<nil>", "", 1)
	for _, f := range report.Findings {
		switch {
		case f.Rule == "schema":
			named := field == f.Field && strings.Contains(f.Message, objection.Message)
			unnamed := field == "" && (strings.Contains(f.Message, objection.Message) || strings.Contains(objection.Message, f.Message))
			if named || unnamed {
				return true
			}
		case strings.Contains(objection.Message, "'"+f.Rule+"'"):
			_, said, _ := strings.Cut(objection.Message, " denied request: ")
			if said == f.Message || said == f.Field+": "+f.Message {
				return true
			}
		}
	}
	return false
}
