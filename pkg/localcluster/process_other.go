//go:build !linux

package localcluster

import "syscall"

// childAttributes keep the terminal's Ctrl-C from a child. Systems other than Linux cannot tie
// its life to its parent's.
func childAttributes(bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
