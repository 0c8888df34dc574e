package placement

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/resources"
)

// treeFrom reads queues: the name of each, its parent if it has one, and the GPUs that it deserves. "keep" means that it is not
// reclaimable. A queue without a number shares the rest by weight.
func treeFrom(t *testing.T, text string) *quota.Tree {
	tree := quota.NewTree()
	for queue := range strings.SplitSeq(text, ";") {
		var terms quota.Terms
		words := strings.Fields(queue)
		name, parent, _ := strings.Cut(words[0], "<")
		terms.Parent = parent
		for _, word := range words[1:] {
			if word == "keep" {
				terms.NotReclaimable = true
				continue
			}
			gpus, err := strconv.ParseInt(word, 10, 64)
			require.NoError(t, err)
			terms.Deserved = resources.List{gpu: gpus}
		}
		tree.Set(name, terms)
	}
	return tree
}

func unitOf(v *Victim) quota.Unit {
	return quota.Unit{Account: v.Account, Priority: v.Priority(), Requests: v.Requests}
}

// treeRules are the rules of the queues. Units that end by themselves are gone already.
type treeRules struct{ *quota.Reclaim }

func (r treeRules) Take(v *Victim) bool {
	return v.Rule == quota.NotAllowed || r.Reclaim.Take(unitOf(v))
}

func (r treeRules) GiveBack(v *Victim) {
	if v.Rule != quota.NotAllowed {
		r.Reclaim.GiveBack(unitOf(v))
	}
}

func (r treeRules) HasQuota() bool { return r.Shortage() == nil }

func (w *town) anyRules() Rules {
	if w.queues != nil {
		return treeRules{w.reclaim()}
	}
	return w.rules()
}

// reclaim asks the queues for the gang that waits. Pods that end by themselves are not charged any more.
func (w *town) reclaim() *quota.Reclaim {
	tree, total, want, sums := w.queues.Clone(), resources.List{}, resources.List{}, resources.Sums{}
	for _, node := range w.nodes {
		total[gpu] += resources.FromResourceList(node.Status.Allocatable)[gpu]
	}
	for _, pod := range w.pods {
		if queue := pod.Annotations["queue"]; queue != "" && !w.leaving.Has(pod.Name) {
			tree.Add(queue, resources.List{gpu: resources.PodRequests(pod)[gpu]})
		}
	}
	for _, pod := range w.waiting {
		want[gpu] += resources.PodRequests(pod)[gpu]
	}
	if w.claimant != nil {
		return tree.Reclaim(tree.ShareOut(total, w.asks), w.claimant.Account, w.claimant.Priority, want)
	}
	sums.Add(want)
	return tree.Reclaim(tree.ShareOut(total, map[string]resources.Sums{ownQueue: sums}), ownQueue, ownPriority, want)
}

// each are pods that are alike, the last one the youngest.
func each(count int, name, rest string) (pods []string) {
	for i := range count {
		pods = append(pods, fmt.Sprintf("%s%d %s since=%d", name, i, rest, i))
	}
	return pods
}

// TestReclaimOnNodes has queues that share GPUs, as KAI's queues do. The gang waits in the queue "own", with priority 5.
func TestReclaimOnNodes(t *testing.T) {
	four := each(4, "b", "0 1 queue=b")
	for name, test := range map[string]roomCase{
		"one pod of a queue above its share":              {nodes: "4", queues: "own 2; b 2", pods: four, members: "1", want: "b3"},
		"a queue down to its share":                       {nodes: "4", queues: "own 2; b 2", pods: four, members: "1 1", want: "b2 b3"},
		"not below its share":                             {nodes: "4", queues: "own 3; b 2", pods: four, members: "1 1 1", want: "none"},
		"not for more than the own share":                 {nodes: "4", queues: "own 1; b 3", pods: four, members: "1 1", want: "none"},
		"not where both are at their shares":              {nodes: "4", queues: "own 2; b 2", pods: slices.Concat(each(2, "o", "0 1 queue=own priority=5"), each(2, "b", "0 1 queue=b")), members: "1", want: "none"},
		"a queue without a written share has the rest":    {nodes: "4", queues: "own 2; b", pods: four, members: "1 1", want: "b2 b3"},
		"nothing from a queue that keeps all":             {nodes: "4", queues: "own 2; b 2 keep", pods: four, members: "1", want: "none"},
		"a gang across queues and nodes":                  {nodes: "2 2", queues: "own 2; a 1; b 1", pods: slices.Concat(each(2, "a", "0 1 queue=a"), each(2, "b", "1 1 queue=b")), members: "1 1", want: "a1 b1"},
		"no part of a gang":                               {nodes: "2 2", queues: "own 4; b 0", pods: []string{"b 0 2 queue=b", "o 1 2 queue=own priority=9"}, members: "2 2", want: "none"},
		"a node is emptied where enough is due":           {nodes: "2 2", queues: "own 3; b 1", pods: []string{"b0 0 1 queue=b since=1", "b1 0 1 queue=b since=2", "b2 1 1 queue=b since=3", "o 1 1 queue=own priority=9"}, members: "2", want: "b0 b1"},
		"not where too little is due":                     {nodes: "4 4", queues: "own 4; b 2; c 2", pods: slices.Concat(four, []string{"c 1 4 queue=c"}), members: "4", want: "c"},
		"what is about to go, and no more":                {nodes: "2", queues: "own 1; b 1", pods: []string{"b0 0 1 queue=b leaving", "b1 0 1 queue=b"}, members: "1", want: "b0"},
		"what is about to go is not used any more":        {nodes: "2", queues: "own 2; b 1", pods: []string{"b0 0 1 queue=b leaving", "b1 0 1 queue=b"}, members: "1 1", want: "none"},
		"what is about to go, and another one":            {nodes: "3", queues: "own 2; b 1", pods: []string{"b0 0 1 queue=b leaving", "b1 0 1 queue=b since=1", "b2 0 1 queue=b since=2"}, members: "1 1", want: "b0 b2"},
		"free room and one pod":                           {nodes: "3", queues: "own 2; b 1", pods: each(2, "b", "0 1 queue=b"), members: "1 1", want: "b1"},
		"free room in pieces that are too small":          {nodes: "2 2", queues: "own 2; b 1", pods: []string{"b0 0 1 queue=b since=1", "b1 1 1 queue=b since=2"}, members: "2", want: "b1"},
		"a pod without GPUs is no help":                   {nodes: "2", queues: "own 1; b 1", pods: []string{"z 0 0 queue=b since=9", "b0 0 1 queue=b since=1", "b1 0 1 queue=b since=2"}, members: "1", want: "b1"},
		"a pod larger than needed, if it is alone":        {nodes: "4", queues: "own 1; b 3", pods: []string{"b 0 4 queue=b"}, members: "1", want: "b"},
		"the pod of lower priority in the other queue":    {nodes: "2", queues: "own 1; b 1", pods: []string{"b0 0 1 queue=b since=1", "b1 0 1 queue=b priority=7 since=2"}, members: "1", want: "b0"},
		"no priority protects above the share":            {nodes: "2", queues: "own 1; b 1", pods: each(2, "b", "0 1 queue=b priority=9"), members: "1", want: "b1"},
		"the queue that is further above its share":       {nodes: "5", queues: "own 2; b 1; c 1", pods: slices.Concat(each(3, "b", "0 1 queue=b"), each(2, "c", "0 1 queue=c")), members: "1", want: "b2"},
		"one pod of each of two queues equally above":     {nodes: "6", queues: "own 2; b 2; c 2", pods: slices.Concat(each(3, "b", "0 1 queue=b"), each(3, "c", "0 1 queue=c")), members: "1 1", want: "b2 c2"},
		"a team of a department above its share":          {nodes: "4", queues: "own 2; org 2; b<org 2", pods: four, members: "1 1", want: "b2 b3"},
		"not a team of one within its share":              {nodes: "4", queues: "own 2; org 4; b<org 1", pods: four, members: "1", want: "none"},
		"the sibling where the own department is full":    {nodes: "4", queues: "org 2; own<org 1; a<org 1; b 1", pods: slices.Concat(each(2, "a", "0 1 queue=a"), each(2, "b", "0 1 queue=b since=5")), members: "1", want: "a1"},
		"a gang goes whole":                               {nodes: "2 2", queues: "own 2; b 2", pods: each(2, "g", "0 1 queue=b gang=g"), mins: map[string]int{"g": 2}, members: "2 2", want: "none"},
		"a gang goes whole, across nodes":                 {nodes: "2 2", queues: "own 2; b 2", pods: []string{"g0 0 2 queue=b gang=g", "g1 1 2 queue=b gang=g"}, mins: map[string]int{"g": 2}, members: "2", want: "g0 g1"},
		"the smaller of two gangs":                        {nodes: "4 2", queues: "own 2; b 0", pods: slices.Concat(each(4, "g", "0 1 queue=b gang=g"), each(2, "h", "1 1 queue=b gang=h")), mins: map[string]int{"g": 4, "h": 2}, members: "2", want: "h0 h1"},
		"a gang of a queue within its share stays":        {nodes: "2 2", queues: "own 2; b 4", pods: []string{"g0 0 2 queue=b gang=g", "g1 1 2 queue=b gang=g"}, mins: map[string]int{"g": 2}, members: "2", want: "none"},
		"own pods of lower priority where nothing is due": {nodes: "2 2", queues: "own 4; b 2", pods: []string{"o 0 2 queue=own", "b 1 2 queue=b"}, members: "2", want: "o"},
	} {
		t.Run(name, test.run)
	}
}

// TestReclaimFromElasticGangs has gangs with more members than their minimum.
func TestReclaimFromElasticGangs(t *testing.T) {
	three := each(3, "g", "0 1 queue=b gang=g")
	one := map[string]int{"g": 1, "h": 1}
	for name, test := range map[string]roomCase{
		"one of the surplus":                           {nodes: "3", queues: "own 1; b 2", pods: three, mins: one, members: "1", want: "g2"},
		"all of the surplus":                           {nodes: "3", queues: "own 2; b 1", pods: three, mins: one, members: "1 1", want: "g1 g2"},
		"all surplus of one gang and some of another":  {nodes: "5", queues: "own 3; b 2", pods: slices.Concat(three, each(2, "h", "0 1 queue=b gang=h")), mins: one, members: "1 1 1", want: "g1 g2 h1"},
		"none of a queue within its share":             {nodes: "3", queues: "own 1; b 3", pods: three, mins: one, members: "1", want: "none"},
		"the minimum too":                              {nodes: "3", queues: "own 3; b 0", pods: three, mins: map[string]int{"g": 2}, members: "1 1 1", want: "g0 g1 g2"},
		"not the minimum that is due to its queue":     {nodes: "3", queues: "own 3; b 1", pods: three, mins: map[string]int{"g": 2}, members: "1 1 1", want: "none"},
		"surplus before a whole gang":                  {nodes: "4", queues: "own 1; b 1", pods: slices.Concat(each(2, "g", "0 1 queue=b gang=g"), each(2, "h", "0 1 queue=b gang=h")), mins: map[string]int{"g": 1, "h": 2}, members: "1", want: "g1"},
		"surplus before a single pod":                  {nodes: "3", queues: "own 1; b 2", pods: slices.Concat(each(2, "g", "0 1 queue=b gang=g"), []string{"s 0 1 queue=b since=9"}), mins: one, members: "1", want: "g1"},
		"the member on the node that is needed":        {nodes: "1 1x", queues: "own 1; b 1", pods: []string{"g0 0 1 queue=b gang=g", "g1 1 1 queue=b gang=g", "s 1 0 queue=b since=9"}, mins: one, members: "1x", want: "g1"},
		"surplus of the own queue of a lower priority": {nodes: "3", queues: "own 3", pods: each(3, "g", "0 1 queue=own gang=g"), mins: one, members: "1", want: "g2"},
		"none of the same priority":                    {nodes: "3", queues: "own 3", pods: each(3, "g", "0 1 queue=own gang=g priority=5"), mins: one, members: "1", want: "none"},
		"surplus that no budget protects":              {nodes: "4", queues: "own 1; b 2", pods: []string{"g0 0 1 queue=b gang=g", "g1 0 1 queue=b gang=g protected", "h0 0 1 queue=b gang=h", "h1 0 1 queue=b gang=h"}, mins: one, members: "1", want: "h1"},
	} {
		t.Run(name, test.run)
	}
}
