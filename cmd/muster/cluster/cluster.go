// Package cluster is `muster cluster`: the nodes by what they have free, and what would start there now.
package cluster

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/yaml"

	schedulingv1beta1 "github.com/muster-sched/muster/pkg/apis/scheduling/v1beta1"
	"github.com/muster-sched/muster/pkg/explain"
	"github.com/muster-sched/muster/pkg/resources"
	"github.com/muster-sched/muster/pkg/topology/watch"

	"github.com/muster-sched/muster/cmd/muster/kube"
)

// options are the flags.
type options struct {
	requests    map[string]string
	file, queue string
	topology    bool
	output      *kube.Output
}

// NewCommand makes `muster cluster`.
func NewCommand() *cobra.Command {
	o := &options{}
	command := &cobra.Command{
		Use:   "cluster",
		Short: "Print the nodes by what they have free, and the largest gang that would start",
		Long: `Print the nodes, those with the most free cpu first. With --requests or --pod, say how
many pods of that kind would start together now, on nodes and, with --queue, within
the quota of a queue. With --topology, print the domains of the network, too.

Room that is reserved for gangs that wait, affinity between pods, volumes and
devices are not looked at.`,
		Example: `  muster cluster
  muster cluster --requests cpu=4,nvidia.com/gpu=1 --queue team-a
  muster cluster --topology --requests nvidia.com/gpu=8
  muster cluster --pod pod.yaml -o json`,
		Args: kube.None,
	}
	connection, flags := kube.Connect(command), command.Flags()
	command.RunE = func(command *cobra.Command, _ []string) error { return o.run(command, connection) }
	o.output = kube.AddOutput(flags)
	flags.StringToStringVarP(&o.requests, "requests", "R", nil, "what each pod of a gang requests, for example cpu=4,memory=8Gi")
	flags.StringVar(&o.file, "pod", "", "file with a pod: its requests, tolerations, node selector and node affinity count")
	flags.StringVarP(&o.queue, "queue", "q", "", "queue whose quota the gang would use")
	flags.BoolVar(&o.topology, "topology", false, "print what each domain of the network has free, and the largest gang for each tier")
	return command
}

func (o *options) run(command *cobra.Command, connection *kube.Connection) error {
	pod, err := o.pod()
	if err != nil {
		return err
	}
	clients, err := connection.Clients()
	if err != nil {
		return err
	}
	reader := kube.NewReader(command.Context(), clients)
	needs := []explain.Part{explain.PartNodes, explain.PartPods}
	if o.queue != "" {
		needs = append(needs, explain.PartQueues)
	}
	if err := reader.Cluster(needs...); err != nil {
		return err
	}
	facts := reader.Facts
	if o.queue != "" && !facts.Lacks(explain.PartQueues) && !slices.ContainsFunc(facts.Queues, func(queue schedulingv1beta1.Queue) bool { return queue.Name == o.queue }) {
		return fmt.Errorf("--queue %s: there is no such queue", o.queue)
	}
	out, found := command.OutOrStdout(), answerOf(facts, pod, o.queue)
	if o.topology && !facts.Lacks(explain.PartNodes, explain.PartPods) {
		tree, err := watch.Read(command.Context(), clients.Muster, clients.Foreign, facts.Nodes)
		if err != nil {
			return err
		}
		found.Domains = domainsOf(tree, facts, pod)
	}
	if err := o.output.Print(out, found, func() error { return found.print(out) }); err != nil {
		return err
	}
	return facts.Lacking(needs...)
}

// answer is what the command says. Gang is missing if no pod was given. A list that the user may not read is missing, not empty.
type answer struct {
	Nodes []node `json:"nodes,omitzero"`
	Gang  *gang  `json:"largestGang,omitempty"`
	// Domains of the network, if they were asked for.
	Domains []domain `json:"domains,omitzero"`
}

// node is what a node has, and has free.
type node struct {
	Name string `json:"name"`
	// State is ready, or says why the node takes no pods.
	State       string              `json:"state"`
	Free        corev1.ResourceList `json:"free"`
	Allocatable corev1.ResourceList `json:"allocatable"`
}

// gang is how many pods would start together.
type gang struct {
	// Size is missing if not all that limits it may be read.
	Size *int `json:"size,omitempty"`
	// OnNodes is how many the nodes have room for; missing if they may not be read.
	OnNodes *int `json:"onNodes,omitempty"`
	// InQueue is how many the quota of queue LimitedBy lets in; both are missing if nothing limits them.
	InQueue   *int   `json:"inQueue,omitempty"`
	LimitedBy string `json:"limitedBy,omitempty"`
}

// answerOf lists the nodes with the most free cpu first.
func answerOf(facts explain.Facts, pod *corev1.Pod, queue string) *answer {
	a := &answer{}
	hasNodes := !facts.Lacks(explain.PartNodes, explain.PartPods)
	if hasNodes {
		a.Nodes = nodesOf(facts)
	}
	if pod == nil {
		return a
	}
	largest := explain.LargestGang(facts, pod, queue)
	a.Gang = &gang{}
	if hasNodes {
		a.Gang.OnNodes = &largest.Nodes
	}
	if largest.Queue >= 0 {
		a.Gang.InQueue, a.Gang.LimitedBy = &largest.Queue, largest.LimitedBy
	}
	if size := largest.Size(); hasNodes && !facts.Lacks(explain.PartQueues) {
		a.Gang.Size = &size
	}
	return a
}

func nodesOf(facts explain.Facts) []node {
	nodes, rooms := []node{}, explain.Rooms(facts.Nodes, facts.Bound)
	for i := range rooms {
		room := &rooms[i]
		nodes = append(nodes, node{
			Name: room.Node.Name, State: cmp.Or(room.Refuses(&corev1.Pod{}), "ready"),
			Free: room.Free.ToResourceList(), Allocatable: room.Has.ToResourceList(),
		})
	}
	return nodes
}

// print prints the nodes as a table, and a sentence about the gang.
func (a *answer) print(out io.Writer) error {
	if a.Nodes != nil {
		if err := printers.NewTablePrinter(printers.PrintOptions{}).PrintObj(a.table(), out); err != nil {
			return err
		}
	}
	if a.Domains != nil {
		fmt.Fprintln(out)
		if err := printers.NewTablePrinter(printers.PrintOptions{}).PrintObj(domainTable(a.Domains, a.Gang != nil), out); err != nil {
			return err
		}
	}
	if a.Gang != nil {
		fmt.Fprint(out, a.Gang.inWords()+largestInDomains(a.Domains))
	}
	return nil
}

// inWords says how large a gang may be, and what limits it, as far as that is known.
func (g *gang) inWords() string {
	var limits []string
	if g.OnNodes != nil {
		limits = append(limits, fmt.Sprintf("the nodes have room for %d", *g.OnNodes))
	}
	if g.InQueue != nil {
		limits = append(limits, fmt.Sprintf("queue %s for %d", g.LimitedBy, *g.InQueue))
	}
	switch known := strings.Join(limits, ", "); {
	case g.Size != nil:
		return fmt.Sprintf("\nThe largest gang of such pods that would start now has %d: %s.\n", *g.Size, known)
	case known != "":
		return fmt.Sprintf("\nThe largest gang of such pods is not known. Of its limits, this may be read: %s.\n", known)
	}
	return ""
}

// pod is the kind of pods that is asked for; nil if none is.
func (o *options) pod() (*corev1.Pod, error) {
	switch {
	case o.file != "" && len(o.requests) > 0:
		return nil, fmt.Errorf("give --requests or --pod, not both")
	case o.file != "":
		text, err := os.ReadFile(o.file)
		if err != nil {
			return nil, fmt.Errorf("--pod: %w", err)
		}
		pod := &corev1.Pod{}
		if err := yaml.UnmarshalStrict(text, pod); err != nil {
			return nil, fmt.Errorf("--pod %s: %w", o.file, err)
		}
		if pod.Kind != "Pod" {
			return nil, fmt.Errorf("--pod %s: kind is %q: give a file with one Pod", o.file, pod.Kind)
		}
		return pod, nil
	case len(o.requests) == 0:
		return nil, nil
	}
	requests, err := kube.Quantities("requests", o.requests)
	if err != nil {
		return nil, err
	}
	return &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: requests}}}}}, nil
}

// table lists nodes with what they have free of what they have.
func (a *answer) table() *metav1.Table {
	columns := []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourcePods}
	for _, node := range a.Nodes {
		for name := range node.Allocatable {
			if !slices.Contains(columns, name) && name != corev1.ResourceEphemeralStorage {
				columns = append(columns, name)
			}
		}
	}
	slices.Sort(columns[3:])
	headings := []string{"NODE", "STATE"}
	for _, name := range columns {
		headings = append(headings, "FREE "+string(name))
	}
	table := kube.NewTable(headings...)
	for _, node := range a.Nodes {
		cells := []any{node.Name, node.State}
		free, has := resources.FromResourceList(node.Free), resources.FromResourceList(node.Allocatable)
		for _, name := range columns {
			cells = append(cells, fmt.Sprintf("%s/%s", resources.Format(name, free[name]), resources.Format(name, has[name])))
		}
		kube.AddRow(table, cells...)
	}
	return table
}
