package migrate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/muster-sched/muster/cmd/muster/kube"
	"github.com/muster-sched/muster/pkg/lint"
	"github.com/muster-sched/muster/pkg/migrate"
)

// cluster reads objects of Volcano, and asks the API server about them.
type cluster struct {
	client    dynamic.Interface
	discovery discovery.DiscoveryInterface
	// namespace limits what is read; empty for all.
	namespace string
	// policies says that the API server has Muster's policies.
	policies bool
	notRead  []string
	warnings *warnings
	mapper   meta.RESTMapper
}

// warnings keeps those of the last request.
type warnings struct{ texts []string }

// HandleWarningHeader implements rest.WarningHandler.
func (w *warnings) HandleWarningHeader(_ int, _ string, text string) { w.texts = append(w.texts, text) }

// policy is one of Muster's policies. It is there if all of them are.
const policy = "muster-jobs"

func newCluster(ctx context.Context, connection *kube.Connection) (*cluster, error) {
	shared, err := connection.Config()
	if err != nil {
		return nil, err
	}
	c := &cluster{warnings: &warnings{}}
	config := rest.CopyConfig(shared)
	config.WarningHandler, config.QPS, config.Burst = c.warnings, 200, 400
	if c.client, err = dynamic.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	if c.discovery, err = discovery.NewDiscoveryClientForConfig(config); err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	if c.mapper, err = connection.ToRESTMapper(); err != nil {
		return nil, fmt.Errorf("asking for the kinds of the cluster: %w", err)
	}
	chosen, isChosen, err := connection.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, fmt.Errorf("reading the namespace of the kubeconfig: %w", err)
	}
	if isChosen {
		c.namespace = chosen
	}
	policies := schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicies"}
	_, err = c.client.Resource(policies).Get(ctx, policy, metav1.GetOptions{})
	c.policies = err == nil
	return c, nil
}

// read returns the objects of Volcano's kinds, the scheduler's configuration and the webhook configurations.
func (c *cluster) read(ctx context.Context, volcanoNamespace string) ([]lint.Object, error) {
	kinds, err := c.kinds()
	if err != nil {
		return nil, err
	}
	if len(kinds) == 0 {
		return nil, errors.New("the cluster has no kinds of Volcano: give files with -f")
	}
	var objects []lint.Object
	for _, kind := range kinds {
		namespace := ""
		if kind.namespaced {
			namespace = c.namespace
		}
		found, err := c.list(ctx, kind.resource, namespace)
		if err != nil {
			return nil, err
		}
		objects = append(objects, found...)
	}
	for _, more := range []struct{ group, resource, namespace string }{
		{"", "configmaps", volcanoNamespace},
		{"admissionregistration.k8s.io", "mutatingwebhookconfigurations", ""},
		{"admissionregistration.k8s.io", "validatingwebhookconfigurations", ""},
	} {
		found, err := c.list(ctx, schema.GroupVersionResource{Group: more.group, Version: "v1", Resource: more.resource}, more.namespace)
		if err != nil {
			return nil, err
		}
		objects = append(objects, found...)
	}
	return objects, nil
}

// served is a kind of the cluster.
type served struct {
	resource   schema.GroupVersionResource
	namespaced bool
}

// kinds returns those of Volcano's groups that can be listed.
func (c *cluster) kinds() ([]served, error) {
	lists, err := discovery.ServerPreferredResources(c.discovery)
	if err != nil && len(lists) == 0 {
		return nil, fmt.Errorf("asking for the kinds of the cluster: %w", err)
	}
	var kinds []served
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil || !strings.HasSuffix(version.Group, ".volcano.sh") {
			continue
		}
		for _, resource := range list.APIResources {
			if slices.Contains(resource.Verbs, "list") && resource.Kind != "Command" {
				kinds = append(kinds, served{version.WithResource(resource.Name), resource.Namespaced})
			}
		}
	}
	return kinds, nil
}

// list reads the objects of a resource. It notes what the user may not read.
func (c *cluster) list(ctx context.Context, resource schema.GroupVersionResource, namespace string) ([]lint.Object, error) {
	list, err := c.client.Resource(resource).Namespace(namespace).List(ctx, metav1.ListOptions{})
	switch {
	case apierrors.IsForbidden(err):
		scope := "in all namespaces"
		if namespace != "" {
			scope = "in " + namespace
		}
		c.notRead = append(c.notRead, fmt.Sprintf("%s: you may not list them %s", resource.GroupResource(), scope))
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("listing %s: %w", resource.GroupResource(), err)
	}
	text, err := json.Marshal(list)
	if err != nil {
		return nil, fmt.Errorf("writing %s as JSON: %w", resource.GroupResource(), err)
	}
	return lint.Read("", text)
}

// judge is the API server, if it has Muster's policies.
func (c *cluster) judge(objects []lint.Object) (migrate.Judge, error) {
	if c.policies {
		return c, nil
	}
	return offline(objects)
}

// Judge implements migrate.Judge with a dry run. An object that exists is refused last of all for that, so this answer means that it is
// taken.
func (c *cluster) Judge(ctx context.Context, object lint.Object) (refused, warned []migrate.Remark, err error) {
	content := bare(object.Content)
	mapping, err := c.mapper.RESTMapping(content.GroupVersionKind().GroupKind(), content.GroupVersionKind().Version)
	if err != nil {
		return nil, nil, fmt.Errorf("finding its kind: %w", err)
	}
	c.warnings.texts = nil
	dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationWarn}
	_, err = c.client.Resource(mapping.Resource).Namespace(content.GetNamespace()).Create(ctx, content, dryRun)
	var status apierrors.APIStatus
	switch {
	case err == nil || apierrors.IsAlreadyExists(err):
	case !errors.As(err, &status) || apierrors.IsUnauthorized(err) || apierrors.IsTooManyRequests(err):
		return nil, nil, fmt.Errorf("asking the API server in a dry run: %w", err)
	default:
		refused = refusals(status.Status())
	}
	for _, text := range c.warnings.texts {
		if strings.HasPrefix(text, "unknown field") {
			refused = append(refused, migrate.Remarked(strings.Trim(strings.TrimPrefix(text, "unknown field "), `"`), text))
		} else if remark, isOurs := migrate.Warned(text); isOurs {
			warned = append(warned, remark)
		}
	}
	return refused, warned, nil
}

// refusals are what an answer of the API server objects to.
func refusals(status metav1.Status) []migrate.Remark {
	if status.Details == nil || len(status.Details.Causes) == 0 {
		return []migrate.Remark{migrate.Remarked("", status.Message)}
	}
	var remarks []migrate.Remark
	for _, cause := range status.Details.Causes {
		message := cause.Message
		if message == "" {
			message = status.Message
		}
		remarks = append(remarks, migrate.Remarked(strings.TrimSuffix(cause.Field, "<nil>"), message))
	}
	return remarks
}

// bare is an object as its author would write it.
func bare(object *unstructured.Unstructured) *unstructured.Unstructured {
	content := object.DeepCopy()
	for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "ownerReferences", "selfLink"} {
		unstructured.RemoveNestedField(content.Object, "metadata", field)
	}
	unstructured.RemoveNestedField(content.Object, "status")
	return content
}
