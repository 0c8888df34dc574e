package state

import (
	fwk "k8s.io/kube-scheduler/framework"
)

const trialKey fwk.StateKey = "MusterTrial"

// trial marks cycle states in which a judgement runs the plugins of the profile: nothing that happens there is real.
type trial struct{}

// Clone returns the mark itself.
func (trial) Clone() fwk.StateData { return trial{} }

// MarkTrial marks a cycle state in which plugins are only asked what they would do.
func MarkTrial(cycle fwk.CycleState) { cycle.Write(trialKey, trial{}) }

// IsTrial says whether a plugin is only asked what it would do: it must neither judge a gang nor book anything.
func IsTrial(cycle fwk.CycleState) bool {
	_, err := cycle.Read(trialKey)
	return err == nil
}
