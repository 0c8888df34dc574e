package kube

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-sched/muster/pkg/quota"
	"github.com/muster-sched/muster/pkg/resources"
)

// Amounts are what tables show of a queue, its children included. The number of pods is left out.
type Amounts struct {
	// Used is what runs. Reserved is what is kept for Jobs that start, beside that.
	Used     corev1.ResourceList `json:"used"`
	Reserved corev1.ResourceList `json:"reserved,omitempty"`
	// Share is missing while it is not known.
	Share     corev1.ResourceList `json:"share,omitempty"`
	Guarantee corev1.ResourceList `json:"guarantee,omitempty"`
	// Borrowed is what is used beyond the share.
	Borrowed corev1.ResourceList `json:"borrowed,omitempty"`
}

// AmountColumns are the headings of Cells.
var AmountColumns = []string{"USED", "RESERVED", "SHARE", "GUARANTEE", "BORROWED"}

// AmountsOf writes figures as Kubernetes' quantities.
func AmountsOf(figures quota.Figures) Amounts {
	return Amounts{
		Used: shown(figures.Used), Reserved: shown(figures.Reserved), Share: shown(figures.Share), Guarantee: shown(figures.Guarantee),
		Borrowed: shown(figures.Borrowed()),
	}
}

// Cells are the amounts in words.
func (a *Amounts) Cells() []any {
	return []any{InWords(a.Used), InWords(a.Reserved), InWords(a.Share), InWords(a.Guarantee), InWords(a.Borrowed)}
}

// InWords writes quantities for a table; "-" if there are none.
func InWords(quantities corev1.ResourceList) string {
	return cmp.Or(resources.FromResourceList(quantities).InWords(), "-")
}

func shown(amounts resources.List) corev1.ResourceList {
	shown := resources.List{}
	for name, amount := range amounts {
		if amount != 0 && name != corev1.ResourcePods {
			shown[name] = amount
		}
	}
	return shown.ToResourceList()
}
