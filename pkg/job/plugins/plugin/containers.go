package plugin

import (
	corev1 "k8s.io/api/core/v1"
)

// AddEnv adds variables to all containers of a pod, after the existing ones. If two have one name, the later counts.
func AddEnv(pod *corev1.PodSpec, vars ...corev1.EnvVar) {
	for i := range pod.Containers {
		pod.Containers[i].Env = append(pod.Containers[i].Env, vars...)
	}
}

// AddEnvEverywhere adds variables to all containers of a pod and to its init containers.
func AddEnvEverywhere(pod *corev1.PodSpec, vars ...corev1.EnvVar) {
	forEachContainer(pod, func(c *corev1.Container) { c.Env = append(c.Env, vars...) })
}

// MountEverywhere adds a volume to a pod and mounts it, once for each mount, into all containers and init containers.
func MountEverywhere(pod *corev1.PodSpec, volume corev1.Volume, mounts ...corev1.VolumeMount) {
	pod.Volumes = append(pod.Volumes, volume)
	forEachContainer(pod, func(c *corev1.Container) { c.VolumeMounts = append(c.VolumeMounts, mounts...) })
}

// OpenPort declares a TCP port of all containers of a pod that do not declare it themselves.
func OpenPort(pod *corev1.PodSpec, name string, port int32) {
	for i := range pod.Containers {
		openPort(&pod.Containers[i], name, port)
	}
}

// OpenPortEverywhere declares a TCP port of all containers and init containers that do not declare it themselves.
func OpenPortEverywhere(pod *corev1.PodSpec, name string, port int32) {
	forEachContainer(pod, func(c *corev1.Container) { openPort(c, name, port) })
}

func openPort(container *corev1.Container, name string, port int32) {
	for _, open := range container.Ports {
		if open.ContainerPort == port {
			return
		}
		if open.Name == name {
			// The name is taken for another port; a port needs none.
			name = ""
		}
	}
	container.Ports = append(container.Ports, corev1.ContainerPort{Name: name, ContainerPort: port})
}

// NamePort gives a TCP port of a container a name, unless it has one of that name.
func NamePort(container *corev1.Container, name string, port int32) {
	for _, open := range container.Ports {
		if open.Name == name {
			return
		}
	}
	container.Ports = append(container.Ports, corev1.ContainerPort{Name: name, ContainerPort: port, Protocol: corev1.ProtocolTCP})
}

func forEachContainer(pod *corev1.PodSpec, do func(*corev1.Container)) {
	for i := range pod.InitContainers {
		do(&pod.InitContainers[i])
	}
	for i := range pod.Containers {
		do(&pod.Containers[i])
	}
}
