package migrate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// ConfigurationKey is where Volcano's ConfigMap has the configuration of its scheduler.
const ConfigurationKey = "volcano-scheduler.conf"

// controllerKey is where it has the configuration of its controllers, in a ConfigMap of its own.
const controllerKey = "volcano-controller.conf"

// configuration is volcano-scheduler.conf.
type configuration struct {
	Actions string `json:"actions"`
	Tiers   []struct {
		Plugins []struct {
			Name      string         `json:"name"`
			Arguments map[string]any `json:"arguments"`
		} `json:"plugins"`
	} `json:"tiers"`
	Configurations []struct {
		Name      string         `json:"name"`
		Arguments map[string]any `json:"arguments"`
	} `json:"configurations"`
}

// counterpart is what Muster has in place of an action, a plugin or an argument.
type counterpart struct {
	result Result
	is     string // what does the same here, or what happens
	remedy string
}

// actions of volcano-scheduler.conf.
var actions = map[string]counterpart{
	"enqueue":  {Kept, "muster-controller admits PodGroups by the quota of their queues", ""},
	"allocate": {Kept, "muster-scheduler places a gang as a whole", ""},
	"backfill": {Differs, "pods without requests are scheduled like all others: there is no second round for them", ""},
	"preempt":  {Kept, "the plugin GangPreemption evicts by priority within a queue", ""},
	"reclaim":  {Kept, "the plugin GangPreemption takes back what other queues have borrowed", ""},
	"shuffle":  {Ignored, "running pods are not moved", "run the descheduler of kubernetes-sigs"},
	"reserve":  {Kept, "room is reserved for a gang that was bypassed too often or too long", ""},
	"elect":    {Kept, "room is reserved for a gang that was bypassed too often or too long", ""},
}

// In profiles of muster-scheduler, upstream's plugins take the place of Volcano's scores.
const inProfiles = "set it in the profiles muster and volcano of muster-scheduler's configuration: "

// plugins of volcano-scheduler.conf.
var plugins = map[string]counterpart{
	"priority":    {Kept, "pods and gangs of higher priority go first", ""},
	"gang":        {Kept, "the plugin Coscheduling starts the minimum together", ""},
	"conformance": {Kept, "pods of the classes system-cluster-critical and system-node-critical are not evicted by priority of others", ""},
	"proportion":  {Kept, "queues share by weight; see docs/queues.md", ""},
	"capacity":    {Kept, "queues have capability, deserved and guarantee; see docs/queues.md", ""},
	"nodegroup":   {Kept, "the plugin NodeGroup reads spec.affinity of queues", ""},
	"predicates":  {Kept, "the filters of kube-scheduler", ""},
	"nodeorder":   {Differs, "the scores of kube-scheduler with its own weights", inProfiles + "score plugins and their weights"},
	"overcommit":  {Differs, "PodGroups are admitted up to 1.2 times what all nodes have", "set --overcommit-factor of muster-controller to the factor"},
	"sla":         {Differs, "the annotation sla-waiting-time of Jobs and PodGroups works; there is no time for the whole cluster", "annotate the Jobs, or have a policy add the annotation"},
	"cdp":         {Kept, "the annotation volcano.sh/cooldown-time, and spec.muster.minRuntime of queues", ""},
	"drf":         {Differs, "queues share by weight; Jobs of one queue go by priority and age", "use a queue for each team, or spec.muster.userQuota of queues; NodeResourcesFit with LeastAllocated spreads pods over nodes"},
	"binpack":     {Differs, "kube-scheduler spreads pods over nodes by default", inProfiles + "NodeResourcesFit with scoringStrategy.type MostAllocated and the same weights of resources"},
	"resource-strategy-fit": {Differs, "kube-scheduler spreads pods over nodes by default",
		inProfiles + "NodeResourcesFit with scoringStrategy.type MostAllocated, LeastAllocated or RequestedToCapacityRatio"},
	"pod-topology-spread":    {Kept, "the plugin PodTopologySpread of kube-scheduler", ""},
	"resourcequota":          {Differs, "a PodGroup is admitted whatever ResourceQuotas say; its pods are then refused, and created when there is quota", "give the queue a capability"},
	"pdb":                    {Kept, "disruption budgets are kept where there is a choice between victims", ""},
	"extender":               {Differs, "extenders are those of kube-scheduler", "name them under extenders of muster-scheduler's configuration"},
	"tdm":                    {Ignored, "revocable zones have no effect", "taint the nodes for certain hours, and tolerate the taint in the pods that may use them"},
	"usage":                  {Ignored, "the real load of nodes is not read", "state requests as they are used; an extender can score by load"},
	"numa-aware":             {Ignored, "NUMA nodes are not looked at", "use the topology manager of the kubelet"},
	"task-topology":          {Ignored, "its annotations have no effect", "use podAffinity and podAntiAffinity in the templates"},
	"rescheduling":           {Ignored, "running pods are not moved", "run the descheduler of kubernetes-sigs"},
	"deviceshare":            {Ignored, "shared devices are not known", "use dynamic resource allocation, or a device plugin that offers parts of a device"},
	"network-topology-aware": {Kept, "HyperNodes and networkTopology always have their effect", ""},
	"nodeaffinity":           {Kept, "the plugin NodeAffinity of kube-scheduler", ""},
}

// arguments of plugins and actions, by their beginning. An argument that is not here has no effect.
var arguments = map[string]counterpart{
	"binpack.":                                  {Differs, "is a weight of a resource in NodeResourcesFit", inProfiles + "scoringStrategy.resources"},
	"leastrequested.weight":                     {Differs, "is NodeResourcesFit with LeastAllocated", inProfiles + "the weight of NodeResourcesFit"},
	"mostrequested.weight":                      {Differs, "is NodeResourcesFit with MostAllocated", inProfiles + "scoringStrategy.type MostAllocated"},
	"nodeaffinity.weight":                       {Differs, "is the weight of NodeAffinity", inProfiles + "the weight of NodeAffinity"},
	"podaffinity.weight":                        {Differs, "is the weight of InterPodAffinity", inProfiles + "the weight of InterPodAffinity"},
	"balancedresource.weight":                   {Differs, "is the weight of NodeResourcesBalancedAllocation", inProfiles + "the weight of NodeResourcesBalancedAllocation"},
	"tainttoleration.weight":                    {Differs, "is the weight of TaintToleration", inProfiles + "the weight of TaintToleration"},
	"imagelocality.weight":                      {Differs, "is the weight of ImageLocality", inProfiles + "the weight of ImageLocality"},
	"podtopologyspread.weight":                  {Differs, "is the weight of PodTopologySpread", inProfiles + "the weight of PodTopologySpread"},
	"selectorspread.weight":                     {Differs, "is the weight of PodTopologySpread", inProfiles + "the weight of PodTopologySpread"},
	"overcommit-factor":                         {Differs, "is the flag --overcommit-factor of muster-controller", "set the flag; the factor of a queue is its annotation volcano.sh/overcommit-factor"},
	"sla-waiting-time":                          {Ignored, "there is no time for the whole cluster", "annotate the Jobs with sla-waiting-time"},
	"hypernode.binpack":                         {Differs, "a gang goes where the least room is left, whatever the resource", "nothing has to be set"},
	"predicate.NodeAffinityEnable":              {Kept, "is the plugin NodeAffinity", ""},
	"predicate.NodePortsEnable":                 {Kept, "is the plugin NodePorts", ""},
	"predicate.TaintTolerationEnable":           {Kept, "is the plugin TaintToleration", ""},
	"predicate.PodAffinityEnable":               {Kept, "is the plugin InterPodAffinity", ""},
	"predicate.NodeVolumeLimitsEnable":          {Kept, "is the plugin NodeVolumeLimits", ""},
	"predicate.VolumeZoneEnable":                {Kept, "is the plugin VolumeZone", ""},
	"predicate.PodTopologySpreadEnable":         {Kept, "is the plugin PodTopologySpread", ""},
	"predicate.VolumeBindingEnable":             {Kept, "is the plugin VolumeBinding", ""},
	"predicate.DynamicResourceAllocationEnable": {Kept, "is the plugin DynamicResources", ""},
	"predicate.CacheEnable":                     {Kept, "equal pods of a gang are filtered once", ""},
}

// schedulerRemarks says what becomes of each action, plugin and argument of a ConfigMap with the scheduler's configuration.
func schedulerRemarks(object *unstructured.Unstructured) ([]Remark, bool, error) {
	text, found, _ := unstructured.NestedString(object.Object, "data", ConfigurationKey)
	if !found {
		return discoveryRemarks(object)
	}
	var read configuration
	if err := yaml.Unmarshal([]byte(text), &read); err != nil {
		return nil, false, fmt.Errorf("reading %s: %w", ConfigurationKey, err)
	}
	var remarks []Remark
	for _, name := range strings.Split(read.Actions, ",") {
		if name = strings.TrimSpace(name); name != "" {
			remarks = append(remarks, remarkOf("actions", name, actions))
		}
	}
	for _, tier := range read.Tiers {
		for _, plugin := range tier.Plugins {
			remarks = append(remarks, remarkOf("plugins", plugin.Name, plugins))
			if remarks[len(remarks)-1].Result != Ignored {
				remarks = append(remarks, argumentRemarks("plugins["+plugin.Name+"]", plugin.Arguments)...)
			}
		}
	}
	for _, action := range read.Configurations {
		remarks = append(remarks, argumentRemarks("configurations["+action.Name+"]", action.Arguments)...)
	}
	return remarks, true, nil
}

// discoveryRemarks says what becomes of a ConfigMap by which Volcano makes HyperNodes.
func discoveryRemarks(object *unstructured.Unstructured) ([]Remark, bool, error) {
	text, found, _ := unstructured.NestedString(object.Object, "data", controllerKey)
	var read struct {
		Discovery []struct {
			Source  string `json:"source"`
			Enabled bool   `json:"enabled"`
		} `json:"networkTopologyDiscovery"`
	}
	if !found {
		return nil, false, nil
	}
	if err := yaml.Unmarshal([]byte(text), &read); err != nil {
		return nil, false, fmt.Errorf("reading %s: %w", controllerKey, err)
	}
	var remarks []Remark
	for _, source := range read.Discovery {
		if source.Enabled {
			remarks = append(remarks, Remark{Result: Differs, Field: "networkTopologyDiscovery[" + source.Source + "]",
				Message: "Muster makes no HyperNodes. The ones in the cluster stay as they are", Remedy: "name the labels of the nodes in a NetworkTopology, and delete the HyperNodes that the discovery made"})
		}
	}
	return remarks, true, nil
}

// remarkOf is the remark on a name.
func remarkOf(list, name string, known map[string]counterpart) Remark {
	c, isKnown := known[name]
	if !isKnown {
		c = counterpart{Ignored, "Muster does not know it", "see what kube-scheduler's plugins do instead"}
	}
	return Remark{Result: c.result, Field: list + "[" + name + "]", Message: c.is, Remedy: c.remedy, Lost: c.result == Ignored}
}

// argumentRemarks are those on the arguments of a plugin or an action.
func argumentRemarks(path string, given map[string]any) []Remark {
	var remarks []Remark
	for _, name := range slices.Sorted(maps.Keys(given)) {
		c := counterpart{Ignored, "the argument has no effect", "leave it out"}
		for beginning, known := range arguments {
			if strings.HasPrefix(name, beginning) {
				c = known
			}
		}
		isOff := strings.HasSuffix(name, "Enable") && fmt.Sprint(given[name]) == "false"
		if isOff && c.result == Kept {
			c = counterpart{Differs, c.is + ", which is on", inProfiles + "disable the plugin"}
		}
		remarks = append(remarks, Remark{Result: c.result, Field: path + ".arguments." + name, Message: c.is, Remedy: c.remedy, Lost: c.result == Ignored})
	}
	return remarks
}

// Names are the actions and plugins whose counterparts are known.
func Names() []string {
	return slices.Sorted(func(yield func(string) bool) {
		for _, list := range []map[string]counterpart{actions, plugins} {
			for name := range list {
				if !yield(name) {
					return
				}
			}
		}
	})
}
