package admission

// hierarchy is a patch that sets the two annotations.
func hierarchy(path, weights string) string {
	return `metadata: {annotations: {volcano.sh/hierarchy: "` + path + `", volcano.sh/hierarchy-weights: "` + weights + `"}}`
}

// amounts is a patch of the amounts of a queue.
func amounts(capability, deserved, guarantee string) string {
	return `spec: {capability: {` + capability + `}, deserved: {` + deserved + `}, guarantee: {resource: {` + guarantee + `}}}`
}

func queueCases() []Case {
	var cases []Case
	cases = append(cases, queueAmounts...)
	cases = append(cases, queueHierarchies...)
	cases = append(cases, queueTrees...)
	return append(cases, queueUpdates...)
}

const (
	rowDeserved   = "8.2 deserved[r] must be >= guarantee[r]=q"
	rowCapability = "8.2 deserved[r]=x must be <= capability[r]=y"
	rowQuantities = "8.2 quantities valid"
	rowLength     = "8.2 must have the same length with"
	rowNumber     = "8.2 is invalid number"
	rowPositive   = "8.2 must be larger than 0"
	rowSubPath    = "8.2 is not allowed to be in the sub path of"
	rowOwnParent  = "8.2 queue <q> cannot use itself as parent"
	rowBusyParent = "8.2 queue <p> cannot be the parent queue of queue <q> because it has allocated Pods: <n>"
	rowAncestor   = "8.2 exceeds its ancestor's capability"
	rowDescendant = "8.2 is smaller than its descendants' max capability"
	rowGuarantees = "8.2 sum of children's guarantee exceeds parent's guarantee limit"
	rowDeserveds  = "8.2 sum of children's deserved exceeds parent's deserved limit"
	rowRoot       = "8.2 root queue's resource attributes (capability, deserved, guarantee) cannot be modified"
)

var queueAmounts = []Case{
	{Name: "a queue that says nothing", Row: rowQuantities, Base: Queue, Patch: `spec: null`},
	{Name: "deserved below the guarantee", Row: rowDeserved, Base: Queue, Patch: amounts("", "cpu: 1", "cpu: 2"),
		Says: []string{"spec.deserved", "deserved[cpu] must be >= guarantee[cpu]=2", "raise deserved"}},
	{Name: "deserved a little below the guarantee", Row: rowDeserved, Base: Queue, Patch: amounts("", "cpu: 1999m", "cpu: 2"),
		Says: []string{"spec.deserved", "deserved[cpu] must be >= guarantee[cpu]=2"}},
	{Name: "deserved equals the guarantee", Row: rowDeserved, Base: Queue, Patch: amounts("", "cpu: 2000m", "cpu: 2")},
	{Name: "deserved above the guarantee", Row: rowDeserved, Base: Queue, Patch: amounts("", "cpu: 3", "cpu: 2")},
	{Name: "a guarantee without deserved", Row: rowDeserved, Base: Queue, Patch: amounts("", "", "cpu: 2")},
	{Name: "two resources deserved below the guarantee", Row: rowDeserved, Base: Queue,
		Patch: amounts("", "cpu: 1, memory: 1Gi", "cpu: 2, memory: 2Gi"),
		Says:  []string{"deserved[cpu] must be >= guarantee[cpu]=2", "deserved[memory] must be >= guarantee[memory]=2Gi"}},
	{Name: "deserved above the capability", Row: rowCapability, Base: Queue, Patch: amounts("cpu: 2", "cpu: 3", ""),
		Says: []string{"spec.deserved", "deserved[cpu]=3 must be <= capability[cpu]=2", "lower deserved"}},
	{Name: "deserved equals the capability", Row: rowCapability, Base: Queue, Patch: amounts("memory: 1Gi", "memory: 1024Mi", "")},
	{Name: "deserved below the capability", Row: rowCapability, Base: Queue, Patch: amounts("cpu: 3", "cpu: 2", "")},
	{Name: "deserved of a resource that has no capability", Row: rowCapability, Base: Queue, Patch: amounts("memory: 1Gi", "cpu: 2", "")},
	{Name: "deserved of an extended resource above the capability", Row: rowCapability, Base: Queue,
		Patch: amounts("nvidia.com/gpu: 7", "nvidia.com/gpu: 8", ""), Says: []string{"deserved[nvidia.com/gpu]=8 must be <= capability[nvidia.com/gpu]=7"}},
	{Name: "a guarantee above the capability", Base: Queue, Patch: amounts("cpu: 2", "", "cpu: 3"),
		Says: []string{"spec.capability", "capability[cpu] must be >= guarantee[cpu]=3", "raise the capability"}},
	{Name: "a capability a little below the guarantee", Base: Queue, Patch: amounts("cpu: 1999m", "", "cpu: 2"),
		Says: []string{"spec.capability", "capability[cpu] must be >= guarantee[cpu]=2"}},
	{Name: "two resources guaranteed above the capability", Base: Queue, Patch: amounts("cpu: 1, memory: 1Gi", "", "cpu: 2, memory: 2Gi"),
		Says: []string{"capability[cpu] must be >= guarantee[cpu]=2", "capability[memory] must be >= guarantee[memory]=2Gi"}},
	{Name: "a guarantee that equals the capability", Base: Queue, Patch: amounts("cpu: 2", "", "cpu: 2")},
	{Name: "a huge amount above another", Row: rowCapability, Base: Queue, Patch: amounts("memory: 9E", "memory: 10E", ""),
		Says: []string{"deserved[memory]=10E must be <= capability[memory]=9E"}},
	{Name: "a negative capability", Row: rowQuantities, Base: Queue, Patch: amounts("cpu: -1", "", ""),
		Says: []string{"spec.capability[cpu]", "must be greater than or equal to 0"}},
	{Name: "a capability of nothing", Row: rowQuantities, Base: Queue, Patch: amounts("cpu: 0", "", "")},
	{Name: "a negative deserved", Row: rowQuantities, Base: Queue, Patch: amounts("", "cpu: -1m", ""),
		Says: []string{"spec.deserved[cpu]", "must be greater than or equal to 0"}},
	{Name: "a negative guarantee", Row: rowQuantities, Base: Queue, Patch: amounts("", "", "cpu: -1"),
		Says: []string{"spec.guarantee.resource[cpu]", "must be greater than or equal to 0"}},
	{Name: "a capability that is no quantity", Row: rowQuantities, Base: Queue, Patch: amounts("cpu: many", "", ""), Says: []string{"spec.capability.cpu"}},
	{Name: "a deserved that is no quantity", Row: rowQuantities, Base: Queue, Patch: amounts("", "memory: 1GiB", ""), Says: []string{"spec.deserved.memory"}},
	{Name: "a guarantee that is no quantity", Row: rowQuantities, Base: Queue, Patch: amounts("", "", "cpu: 1 core"), Says: []string{"spec.guarantee.resource.cpu"}},
}

var queueHierarchies = []Case{
	{Name: "a path with weights", Row: rowLength, Base: Queue, Patch: hierarchy("root/sci/prod", "1/2/8")},
	{Name: "a path without weights", Row: rowLength, Base: Queue, Patch: hierarchy("root/sci", ""),
		Says: []string{"metadata.annotations", "root/sci must have the same length with", "give each queue of the path a weight"}},
	{Name: "weights without a path", Row: rowLength, Base: Queue, Patch: hierarchy("", "1/2"), Says: []string{"must have the same length with"}},
	{Name: "a weight too few", Row: rowLength, Base: Queue, Patch: hierarchy("root/sci/prod", "1/2"), Says: []string{"must have the same length with"}},
	{Name: "a weight too many", Row: rowLength, Base: Queue, Patch: hierarchy("root/sci", "1/2/3"), Says: []string{"must have the same length with"}},
	{Name: "a weight that is a word", Row: rowNumber, Base: Queue, Patch: hierarchy("root/sci", "1/two"),
		Says: []string{"metadata.annotations[volcano.sh/hierarchy-weights]", "two in the 1/two is invalid number"}},
	{Name: "a weight that is empty", Row: rowNumber, Base: Queue, Patch: hierarchy("root/sci", "1/"), Says: []string{"is invalid number"}},
	{Name: "a weight with a fraction", Row: rowNumber, Base: Queue, Patch: hierarchy("root/sci", "1/0.5")},
	{Name: "a weight of nothing", Row: rowPositive, Base: Queue, Patch: hierarchy("root/sci", "1/0"),
		Says: []string{"metadata.annotations[volcano.sh/hierarchy-weights]", "1/0 must be larger than 0"}},
	{Name: "a negative weight", Row: rowPositive, Base: Queue, Patch: hierarchy("root/sci", "1/-2"), Says: []string{"must be larger than 0"}},
	{Name: "the smallest weight", Row: rowPositive, Base: Queue, Patch: hierarchy("root/sci", "1/0.001")},
	{Name: "a path below another's", Row: rowSubPath, Base: Queue, Patch: hierarchy("root/eng/dev/mine", "1/2/8/1"), Needs: NeedsQueues,
		Says: []string{"metadata.annotations[volcano.sh/hierarchy]", "root/eng/dev/mine is not allowed to be in the sub path of root/eng/dev of queue dev"}},
	{Name: "a path above another's", Row: rowSubPath, Base: Queue, Patch: hierarchy("root/eng", "1/2"), Needs: NeedsQueues,
		Says: []string{"root/eng/dev is not allowed to be in the sub path of root/eng"}},
	{Name: "a path beside another's", Row: rowSubPath, Base: Queue, Patch: hierarchy("root/eng/develop", "1/2/8"), Needs: NeedsQueues},
}

var queueTrees = []Case{
	{Name: "a queue that is its own parent", Row: rowOwnParent, Base: Queue, Patch: `spec: {parent: team}`,
		Says: []string{"spec.parent", "a queue cannot use itself as parent", "name another queue"}},
	{Name: "a queue below the root", Row: rowOwnParent, Base: Queue, Patch: `spec: {parent: root}`},
	{Name: "a queue whose parent has pods", Row: rowBusyParent, Base: Queue, Patch: `spec: {parent: working}`, Needs: NeedsQueues,
		Says: []string{"spec.parent", "queue working cannot be the parent queue of queue team because it has allocated Pods: 3"}},
	{Name: "a queue whose parent has pods in its children only", Row: rowBusyParent, Base: Queue, Patch: `spec: {parent: working-below}`, Needs: NeedsQueues},
	{Name: "a queue whose parent does not exist yet", Base: Queue, Patch: `spec: {parent: to-come}`, Needs: NeedsQueues},
	{Name: "a queue that may have more than its parent", Row: rowAncestor, Base: Queue, Needs: NeedsQueues, Patch: `spec: {parent: limited, capability: {cpu: 9}}`,
		Says: []string{"spec.capability", "capability[cpu]=9 of queue team exceeds", "exceeds its ancestor's capability", "lower it"}},
	{Name: "a queue that may have as much as its parent", Row: rowAncestor, Base: Queue, Needs: NeedsQueues, Patch: `spec: {parent: limited, capability: {cpu: 8000m}}`},
	{Name: "a queue that may have less than its parent", Row: rowAncestor, Base: Queue, Needs: NeedsQueues, Patch: `spec: {parent: limited, capability: {cpu: 7}}`},
	{Name: "a queue of which its parent does not limit the resource", Row: rowAncestor, Base: Queue, Needs: NeedsQueues, Patch: `spec: {parent: limited, capability: {pods: 900}}`},
	{Name: "a queue that is guaranteed more than its parent", Row: rowGuarantees, Base: Queue, Needs: NeedsQueues,
		Patch: `spec: {parent: limited, guarantee: {resource: {cpu: 3}}}`,
		Says:  []string{"spec.guarantee.resource", "parent queue limited validation failed: sum of children's guarantee (", "exceeds parent's guarantee limit"}},
	{Name: "a queue that is guaranteed as much as its parent", Row: rowGuarantees, Base: Queue, Needs: NeedsQueues, Patch: `spec: {parent: limited, guarantee: {resource: {cpu: 2}}}`},
	{Name: "a queue that deserves more than its parent", Row: rowDeserveds, Base: Queue, Needs: NeedsQueues, Patch: `spec: {parent: limited, deserved: {cpu: 5}}`,
		Says: []string{"spec.deserved", "parent queue limited validation failed: sum of children's deserved (", "exceeds parent's deserved limit"}},
	{Name: "a queue that deserves as much as its parent", Row: rowDeserveds, Base: Queue, Needs: NeedsQueues, Patch: `spec: {parent: limited, deserved: {cpu: 4}}`},
}

// The queues of these updates have children among Queues, or are the root.
var queueUpdates = []Case{
	{Name: "a capability that is lowered below a child's", Row: rowDescendant, Base: Queue, Needs: NeedsQueues,
		Old: `{metadata: {name: limited}, spec: {capability: {cpu: 8}}}`, Patch: `spec: {capability: {cpu: 3}}`,
		Says: []string{"spec.capability", "capability of queue limited is smaller than its descendants' max capability"}},
	{Name: "a capability that is lowered to a child's", Row: rowDescendant, Base: Queue, Needs: NeedsQueues,
		Old: `{metadata: {name: limited}, spec: {capability: {cpu: 8}}}`, Patch: `spec: {capability: {cpu: 4}}`},
	{Name: "a guarantee that is lowered below a child's", Row: rowGuarantees, Base: Queue, Needs: NeedsQueues,
		Old: `{metadata: {name: limited}, spec: {guarantee: {resource: {cpu: 2}}}}`, Patch: `spec: {guarantee: {resource: {cpu: 500m}}}`,
		Says: []string{"parent queue limited validation failed: sum of children's guarantee ("}},
	{Name: "a queue below its own child", Row: rowOwnParent, Base: Queue, Needs: NeedsQueues,
		Old: `{metadata: {name: org}}`, Patch: `spec: {parent: org-team}`,
		Says: []string{"spec.parent", "queue org cannot use org-team as parent: that is its own child"}},
	{Name: "a queue that becomes its own parent", Row: rowOwnParent, Base: Queue,
		Old: `{metadata: {name: open}}`, Patch: `spec: {parent: open}`, Says: []string{"a queue cannot use itself as parent"}},
	{Name: "a limit of the root", Row: rowRoot, Base: Root, Old: `{}`, Patch: `spec: {capability: {cpu: 1}}`,
		Says: []string{"root queue's resource attributes (capability, deserved, guarantee) cannot be modified", "limit the queues below it"}},
	{Name: "a share of the root", Row: rowRoot, Base: Root, Old: `{}`, Patch: `spec: {deserved: {cpu: 1}}`, Says: []string{"cannot be modified"}},
	{Name: "a guarantee of the root", Row: rowRoot, Base: Root, Old: `{}`, Patch: `spec: {guarantee: {resource: {cpu: 1}}}`, Says: []string{"cannot be modified"}},
	{Name: "a label of the root", Row: rowRoot, Base: Root, Old: `{}`, Patch: `metadata: {labels: {a: b}}`},
	{Name: "the weight of the root", Row: rowRoot, Base: Root, Old: `{}`, Patch: `spec: {weight: 2}`},
}
