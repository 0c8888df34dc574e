// Package realnode runs one real node of a local cluster: containerd, a kubelet and CoreDNS.
//
// The node is one process with children. The process is the first in its own PID and mount namespaces. It makes a network namespace for its
// children. So whatever ends it, the kernel removes each container, mount and interface of the node. Only its files and the empty control
// groups of its containers are left; [Remove] deletes both.
//
//	host                      network namespace of the node
//	muster-ID 198.18.x.y/30 - node0 198.18.x.y+1/30    the kubelet, for logs and exec
//	127.0.0.1:PORT          < lo 10.0.0.1:443          the API server, through a proxy in this process
//	                          lo 10.0.0.10:53          CoreDNS
//	                          cni0 10.64.0.0/16        the bridge of the pods
//
// Pods reach each other, the API server and CoreDNS, and nothing outside of the machine. No packet filter rule is made. Addresses of
// Services other than headless ones lead nowhere, because no kube-proxy runs.
package realnode
