package explain

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/muster-sched/muster/pkg/resources"
	"github.com/muster-sched/muster/pkg/text"
)

// Short is what is short, as a message of muster-controller or the scheduler names it. It is an amount of a queue, or room on nodes.
type Short struct {
	// Queue whose limit is short; "" if it is the cluster, or nodes.
	Queue string `json:"queue,omitempty"`
	// User whose quota in the queue is short; "" if it is the queue's own limit.
	User string `json:"user,omitempty"`
	// Resource that is short, with what was asked for, what was free, and how much has to come free.
	Resource corev1.ResourceName `json:"resource,omitempty"`
	Asked    *resource.Quantity  `json:"asked,omitempty"`
	Free     *resource.Quantity  `json:"free,omitempty"`
	Missing  *resource.Quantity  `json:"missing,omitempty"`
	// Pods is how many more pods need room on nodes. Task is theirs, and Each is the request of each.
	Pods int                 `json:"pods,omitempty"`
	Task string              `json:"task,omitempty"`
	Each corev1.ResourceList `json:"each,omitempty"`
}

const owner = `(?:(?:user "([^"]*)" of )?queue "([^"]*)"|the cluster)`

var (
	shortOfQuota = regexp.MustCompile(owner + ` has (\S+) (\S+) free of its (?:capability|quota|total), (\S+) needed`)
	neverFits    = regexp.MustCompile(text.NeverFits + owner + `: (\S+) (\S+) asked, its (?:capability|quota) is ([^\s,;]+)`)
	shortOfNodes = regexp.MustCompile(`; (\d+) more(?: of task ("(?:[^"\\]|\\.)*"))?(?: finds? no node \(.*\); (?:it|they))? needs? (.+)`)
	oneAmount    = regexp.MustCompile(`^(\S+) ([^\s,;]+)(, )?`)
)

// shortIn reads a message; nil if it names no amount.
func shortIn(message string) *Short {
	if m := shortOfQuota.FindStringSubmatch(message); m != nil {
		free := m[3]
		if free == "no" {
			free = "0"
		}
		return shortOf(m[1], m[2], m[4], m[5], free)
	}
	if m := neverFits.FindStringSubmatch(message); m != nil {
		return shortOf(m[1], m[2], m[4], m[3], m[5])
	}
	m := shortOfNodes.FindStringSubmatch(message)
	if m == nil {
		return nil
	}
	short := &Short{Each: amountsIn(m[3])}
	short.Pods, _ = strconv.Atoi(m[1])
	short.Task, _ = strconv.Unquote(m[2])
	return short
}

// shortOf is a limit with too little left; nil if the amounts are none.
func shortOf(user, queue, name, asked, free string) *Short {
	want, err := resource.ParseQuantity(asked)
	left, err2 := resource.ParseQuantity(free)
	if err != nil || err2 != nil {
		return nil
	}
	missing := want.DeepCopy()
	missing.Sub(left)
	return &Short{Queue: queue, User: user, Resource: corev1.ResourceName(name), Asked: &want, Free: &left, Missing: &missing}
}

// amountsIn reads amounts at the beginning of a text, as resources.List.InWords writes them.
func amountsIn(said string) corev1.ResourceList {
	amounts := corev1.ResourceList{}
	for {
		m := oneAmount.FindStringSubmatch(said)
		if m == nil {
			return amounts
		}
		quantity, err := resource.ParseQuantity(m[1])
		if err != nil {
			return amounts
		}
		amounts[corev1.ResourceName(m[2])] = quantity
		if m[3] == "" {
			return amounts
		}
		said = strings.TrimPrefix(said, m[0])
	}
}

// of says whether a resource is short.
func (s *Short) of(name corev1.ResourceName) bool {
	_, onNodes := s.Each[name]
	return s.Resource == name || onNodes
}

// owner names whose limit is short.
func (s *Short) owner() string {
	switch {
	case s.User != "":
		return "user " + s.User + " in queue " + s.Queue
	case s.Queue != "":
		return "queue " + s.Queue
	}
	return "the cluster"
}

func (s *Short) limitName() string {
	if s.User != "" {
		return "quota"
	}
	return "capability"
}

// remedy says what has to come free.
func (s *Short) remedy() string {
	switch {
	case s.Pods > 0:
		each := resources.FromResourceList(s.Each)
		room := "Room on nodes for " + text.Count(s.Pods, "more pod")
		if !each.IsZero() {
			room += ", with " + each.InWords() + " each"
		}
		return room + ": pods there have to end, or nodes that its pods may use have to be added."
	case s.Missing.Sign() <= 0:
		return fmt.Sprintf("%s of %s that is kept for others: they start first, or no longer need it.", s.Resource, s.owner())
	case s.User != "":
		return fmt.Sprintf("%s %s of %s: jobs of that user have to end, or the quota has to be raised.", s.amount(), s.Resource, s.owner())
	case s.Queue != "":
		return fmt.Sprintf("%s %s of %s: Jobs there have to end, or its capability has to be raised.", s.amount(), s.Resource, s.owner())
	}
	return fmt.Sprintf("%s %s of the cluster: pods have to end, or nodes have to be added.", s.amount(), s.Resource)
}

func (s *Short) amount() string {
	return format(s.Resource, resources.Amount(s.Resource, *s.Missing))
}
