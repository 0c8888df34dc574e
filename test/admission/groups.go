package admission

const (
	rowGroupQueue = "7.1 can only submit PodGroup to queue with state `Open`, queue `<q>` status is `<s>`"
	rowNoGroupQ   = "7.1 unable to find queue"
	rowGroupTiers = "7.1 both tiers; in subGroupPolicy '<n>': must not specify"
	rowManyJDB    = "1.6 not allow configure multiple annotations <[...]> at same time"
	rowIntJDB     = "1.6 invalid value <\"...\"> for <key>, it must be a positive integer"
	rowPercentJDB = "1.6 it must be a valid percentage which between 1% ~ 99%"
)

func podGroupCases() []Case {
	cases := []Case{
		{Name: "a closed queue", Row: rowGroupQueue, Base: PodGroup, Patch: `spec: {queue: closed}`, Needs: NeedsQueues,
			Says: []string{"spec.queue", "can only submit PodGroup to queue with state `Open`, queue `closed` status is `Closed`"}},
		{Name: "a closing queue", Row: rowGroupQueue, Base: PodGroup, Patch: `spec: {queue: closing}`, Needs: NeedsQueues, Says: []string{"queue `closing` status is `Closing`"}},
		{Name: "an open queue", Row: rowGroupQueue, Base: PodGroup, Patch: `spec: {queue: open}`, Needs: NeedsQueues},
		{Name: "a queue that does not exist", Row: rowNoGroupQ, Base: PodGroup, Patch: `spec: {queue: nowhere}`, Needs: NeedsQueues},
		{Name: "the root queue", Base: PodGroup, Patch: `spec: {queue: root}`, Needs: NeedsQueues, Says: []string{"can not submit PodGroup to root queue"}},
		{Name: "a queue with children", Base: PodGroup, Patch: `spec: {queue: org}`, Needs: NeedsQueues, Says: []string{"can only submit PodGroup to leaf queue, queue `org`"}},
		{Name: "a change to a closed queue", Base: PodGroup, Old: named("update-group"), Patch: `spec: {queue: closed}`, Needs: NeedsQueues, Says: []string{"queue `closed` status is `Closed`"}},
		{Name: "another minimum", Base: PodGroup, Old: named("update-group"), Patch: `spec: {minMember: 2}`},
		{Name: "both tiers", Row: rowGroupTiers, Base: PodGroup, Patch: `spec: {networkTopology: {highestTierName: rack, highestTierAllowed: 0}}`,
			Says: []string{"spec.networkTopology", "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously"}},
		{Name: "both tiers of a sub group", Row: rowGroupTiers, Base: PodGroup, Patch: `spec: {subGroupPolicy: [{name: a, networkTopology: {highestTierName: rack, highestTierAllowed: 0}}]}`,
			Says: []string{"spec.subGroupPolicy[0].networkTopology", "in subGroupPolicy 'a': must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously"}},
		{Name: "one tier", Row: rowGroupTiers, Base: PodGroup, Patch: `spec: {networkTopology: {highestTierName: rack}, subGroupPolicy: [{name: a, networkTopology: {highestTierAllowed: 0}}]}`},
		{Name: "a negative minimum", Base: PodGroup, Patch: `spec: {minMember: -1}`, Says: []string{"spec.minMember", "greater than or equal to 0"}},
		{Name: "a minimum of nothing", Base: PodGroup, Patch: `spec: {minMember: 0}`},
	}
	return append(cases, budgetCases(PodGroup)...)
}

func podCases() []Case {
	const wrong = `metadata: {annotations: {volcano.sh/jdb-max-unavailable: "-1"}}, `
	cases := []Case{
		{Name: "a wrong budget on a pod of a scheduler that is not served", Base: Pod, Patch: "{" + wrong + `spec: {schedulerName: other}}`},
		{Name: "two budgets on a pod of a scheduler that is not served", Base: Pod,
			Patch: `{metadata: {annotations: {volcano.sh/jdb-min-available: "1", volcano.sh/jdb-max-unavailable: "1"}}, spec: {schedulerName: other}}`},
	}
	for _, name := range []string{"muster", "volcano", "default-scheduler"} {
		cases = append(cases, Case{Name: "a wrong budget on a pod of " + name, Row: rowIntJDB, Base: Pod, Patch: "{" + wrong + `spec: {schedulerName: ` + name + `}}`,
			Says: []string{"metadata.annotations[volcano.sh/jdb-max-unavailable]", "it must be a positive integer"}})
	}
	return append(cases, budgetCases(Pod)...)
}

// budgetCases are cases of the annotations of disruption budgets.
func budgetCases(base string) []Case {
	const minimum, maximum = "volcano.sh/jdb-min-available", "volcano.sh/jdb-max-unavailable"
	cases := []Case{
		{Name: "two budgets", Row: rowManyJDB, Base: base, Patch: `metadata: {annotations: {` + minimum + `: "1", ` + maximum + `: "1"}}`,
			Says: []string{"metadata.annotations", "not allow configure multiple annotations <[" + minimum + " " + maximum + "]> at same time"}},
	}
	for _, key := range []string{minimum, maximum} {
		for _, value := range []string{"1", "30", "1%", "50%", "99%"} {
			cases = append(cases, Case{Name: "the budget " + key + " of " + value, Row: rowIntJDB, Base: base, Patch: `metadata: {annotations: {` + key + `: "` + value + `"}}`})
		}
		for _, value := range []string{"0", "-1", "", "one", "1.5", "1e3", " 1", "１"} {
			cases = append(cases, Case{Name: "the budget " + key + " of '" + value + "'", Row: rowIntJDB, Base: base, Patch: `metadata: {annotations: {` + key + `: "` + value + `"}}`,
				Says: []string{"metadata.annotations[" + key + "]", `invalid value <"` + value + `"> for ` + key, "it must be a positive integer"}})
		}
		for _, value := range []string{"0%", "100%", "-1%", "1.5%", "%", "101%"} {
			cases = append(cases, Case{Name: "the budget " + key + " of " + value, Row: rowPercentJDB, Base: base, Patch: `metadata: {annotations: {` + key + `: "` + value + `"}}`,
				Says: []string{`invalid value <"` + value + `"> for ` + key, "it must be a valid percentage which between 1% ~ 99%"}})
		}
	}
	return cases
}

// HyperNode and NetworkTopology are names of bases.
const (
	HyperNode       = "hypernode"
	NetworkTopology = "networktopology"
)

const (
	rowNoMember  = "topology 1.1 member must have at least one member"
	rowSelector  = "topology 1.1 member selector must have one of exactMatch, regexMatch, or labelMatch"
	rowOneWay    = "topology 1.1 cannot specify more than one selector type"
	rowExactName = "topology 1.1 member exactMatch name is required"
	rowPattern   = "topology 1.1 member regexMatch pattern is invalid"
)

func topologyCases() []Case {
	cases := hyperNodeCases()
	levels := func(list string) string { return "spec: {levels: [" + list + "]}" }
	cases = append(cases,
		Case{Name: "no levels", Base: NetworkTopology, Patch: levels(""), Says: []string{"spec.levels", "should have at least 1 items"}},
		Case{Name: "17 levels", Base: NetworkTopology, Patch: "spec: {levels: [" + more(17, "{nodeLabel: a}") + "]}", Says: []string{"spec.levels", "must have at most 16 items"}},
		Case{Name: "a level without a label", Base: NetworkTopology, Patch: levels("{tierName: rack}"), Says: []string{"spec.levels[0].nodeLabel", "Required value"}},
		Case{Name: "a label twice", Base: NetworkTopology, Patch: levels("{nodeLabel: a}, {nodeLabel: a}"), Says: []string{"spec.levels", "name each label once"}},
		Case{Name: "a key that no label has", Base: NetworkTopology, Patch: levels("{nodeLabel: a b}"), Says: []string{"spec.levels[0].nodeLabel", "should match"}},
		Case{Name: "tiers that rise", Base: NetworkTopology, Patch: levels("{nodeLabel: a, tier: 1}, {nodeLabel: b, tier: 2}"), Says: []string{"spec.levels", "the tiers must fall"}},
		Case{Name: "some tiers", Base: NetworkTopology, Patch: levels("{nodeLabel: a, tier: 2}, {nodeLabel: b}"), Says: []string{"spec.levels", "the tiers must fall"}},
		Case{Name: "a tier of the node itself", Base: NetworkTopology, Patch: levels("{nodeLabel: a, tier: 2}, {nodeLabel: kubernetes.io/hostname, tier: 1}"),
			Says: []string{"spec.levels", "kubernetes.io/hostname stands for the node itself"}},
		Case{Name: "the node itself before a rack", Base: NetworkTopology, Patch: levels("{nodeLabel: kubernetes.io/hostname}, {nodeLabel: rack}"),
			Says: []string{"spec.levels", "kubernetes.io/hostname stands for the node itself"}},
		Case{Name: "the node itself as the last level", Base: NetworkTopology, Patch: levels("{nodeLabel: rack}, {nodeLabel: kubernetes.io/hostname}")},
		Case{Name: "a selector that cannot be", Base: NetworkTopology, Patch: "spec: {nodeSelector: {matchExpressions: [{key: a, operator: Near}]}}"},
	)
	selector := func(expression string) string {
		return "spec: {subGroupPolicy: [{name: a, labelSelector: {matchExpressions: [{key: a, " + expression + "}]}}]}"
	}
	for _, expression := range []string{"operator: In, values: [b]", "operator: Exists"} {
		cases = append(cases, Case{Name: "a sub group by " + expression, Base: PodGroup, Patch: selector(expression)})
	}
	for _, expression := range []string{"operator: Near", "operator: In", "operator: Exists, values: [b]"} {
		cases = append(cases, Case{Name: "a sub group by " + expression, Base: PodGroup, Patch: selector(expression),
			Says: []string{"spec.subGroupPolicy", "a labelSelector is invalid"}})
	}
	for _, base := range []string{Job, PodGroup} {
		cases = append(cases, narrowCases(base)...)
	}
	return cases
}

func hyperNodeCases() []Case {
	member := func(text string) string { return "spec: {members: [" + text + "]}" }
	node := func(selector string) string { return member("{type: Node, selector: {" + selector + "}}") }
	return []Case{
		{Name: "no list of members", Row: rowNoMember, Base: HyperNode, Patch: "spec: {members: null}", Says: []string{"member must have at least one member"}},
		{Name: "an empty list of members", Base: HyperNode, Patch: "spec: {members: []}", Says: []string{"spec.members", "should have at least 1 items"}},
		{Name: "a member without a selector", Row: rowSelector, Base: HyperNode, Patch: member("{type: Node}"),
			Says: []string{"spec.members[0].selector", "member selector must have one of exactMatch, regexMatch, or labelMatch"}},
		{Name: "an empty selector", Row: rowSelector, Base: HyperNode, Patch: node(""), Says: []string{"Either ExactMatch or RegexMatch or LabelMatch must be specified"}},
		{Name: "two selectors", Row: rowOneWay, Base: HyperNode, Patch: node("exactMatch: {name: a}, regexMatch: {pattern: a}"),
			Says: []string{"Only one of ExactMatch, RegexMatch, or LabelMatch can be specified", "cannot specify more than one selector type"}},
		{Name: "a node without a name", Row: rowExactName, Base: HyperNode, Patch: node("exactMatch: {}"), Says: []string{"spec.members[0].selector.exactMatch.name", "Required value"}},
		{Name: "a node with an empty name", Row: rowExactName, Base: HyperNode, Patch: node(`exactMatch: {name: ""}`), Says: []string{"spec.members[0].selector.exactMatch.name"}},
		{Name: "a name that no node has", Base: HyperNode, Patch: node("exactMatch: {name: Node_1}"), Says: []string{"spec.members[0].selector.exactMatch.name", "should match"}},
		{Name: "a round bracket too few", Row: rowPattern, Base: HyperNode, Patch: node(`regexMatch: {pattern: "node-(1"}`),
			Says: []string{"spec.members[0].selector.regexMatch.pattern", "member regexMatch pattern is invalid"}},
		{Name: "a square bracket too few", Row: rowPattern, Base: HyperNode, Patch: node(`regexMatch: {pattern: "node-[1"}`), Says: []string{"member regexMatch pattern is invalid"}},
		{Name: "a repetition of nothing", Row: rowPattern, Base: HyperNode, Patch: node(`regexMatch: {pattern: "*"}`), Says: []string{"member regexMatch pattern is invalid"}},
		{Name: "a look ahead", Row: rowPattern, Base: HyperNode, Patch: node(`regexMatch: {pattern: "node-(?=1)"}`), Says: []string{"member regexMatch pattern is invalid"}},
		{Name: "an empty pattern", Row: rowPattern, Base: HyperNode, Patch: node(`regexMatch: {pattern: ""}`), Says: []string{"spec.members[0].selector.regexMatch.pattern"}},
		{Name: "a pattern", Row: rowPattern, Base: HyperNode, Patch: node(`regexMatch: {pattern: "^node-[0-9]{1,3}$"}`)},
		{Name: "labels", Base: HyperNode, Patch: node(`labelMatch: {matchLabels: {rack: "1"}}`)},
		{Name: "another type of member", Base: HyperNode, Patch: member("{type: Rack, selector: {exactMatch: {name: a}}}"), Says: []string{"spec.members[0].type", "Unsupported value"}},
		{Name: "a negative tier", Base: HyperNode, Patch: "spec: {tier: -1}", Says: []string{"spec.tier", "greater than or equal to 0"}},
		{Name: "tier 0", Base: HyperNode, Patch: "spec: {tier: 0}"},
		{Name: "no tier", Base: HyperNode, Patch: "spec: {tier: null}", Says: []string{"spec.tier", "Required value"}},
		{Name: "HyperNodes by labels", Base: HyperNode, Patch: member("{type: HyperNode, selector: {labelMatch: {matchLabels: {a: b}}}}")},
	}
}

// narrowCases are cases of the annotation muster.sh/narrow-topology.
func narrowCases(base string) []Case {
	const key = "muster.sh/narrow-topology"
	var cases []Case
	narrow := func(value string, says ...string) {
		cases = append(cases, Case{Name: "narrow topology '" + value + "'", Base: base, Patch: "metadata: {annotations: {" + key + `: "` + value + `"}}`, Says: says})
	}
	for _, value := range []string{"1", "0@0", "1@10m", "rack@1h30m", "topology.example.com/rack@90s", "a rack@1.5h", "1@8760h"} {
		narrow(value)
	}
	for _, value := range []string{"", "@10m", "-1@10m", " 1@10m", "1 @10m"} {
		narrow(value, "metadata.annotations["+key+"]", "write its number or its name")
	}
	for _, value := range []string{"1@", "1@soon", "1@10", "1@-10m", "1@1d", "1@8761h", "1@10m@1h"} {
		narrow(value, "metadata.annotations["+key+"]", "write one like 90s, 10m or 2h after the @")
	}
	return cases
}
