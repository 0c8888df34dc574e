package v1beta1

// Admitted tells whether a PodGroup in this phase has left Pending, which it never enters again.
func (p PodGroupPhase) Admitted() bool { return p != "" && p != PodGroupPending }
