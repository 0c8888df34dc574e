package localcluster

import "syscall"

// childAttributes make a child die with its parent, whatever ends the parent, and keep the
// terminal's Ctrl-C from it. The supervisor decides when and in which order children stop.
func childAttributes(ownNamespaces bool) *syscall.SysProcAttr {
	attributes := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if ownNamespaces {
		attributes.Cloneflags = syscall.CLONE_NEWPID | syscall.CLONE_NEWNS
	}
	return attributes
}
