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
