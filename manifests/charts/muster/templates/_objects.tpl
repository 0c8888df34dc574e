{{/*
muster.objects prints the objects of the files that match a pattern below files/, without its suffix .yaml, as the values say.
Arguments: the root, the pattern.
*/}}
{{- define "muster.objects" -}}
{{- $root := index . 0 }}
{{- range $path, $_ := $root.Files.Glob (printf "files/%s.yaml" (index . 1)) }}
{{- range regexSplit "(?m)^---$" (include "muster.file" (list $root $path)) -1 }}
{{- $object := fromYaml . }}
{{- if and $object (eq (include "muster.wanted" (list $root $object)) "true") }}
{{- include "muster.edit" (list $root $object) }}
---
{{ toYaml $object }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/*
muster.file prints a file with the namespace of the release.
Arguments: the root, the path.
*/}}
{{- define "muster.file" -}}
{{- $root := index . 0 }}
{{- $root.Files.Get (index . 1) | replace "muster-system" $root.Release.Namespace }}
{{- end }}

{{/*
muster.wanted says true of an object that is to be installed. Helm makes the namespace. Kubernetes before 1.36 does not serve the policies
that write defaults.
Arguments: the root, the object.
*/}}
{{- define "muster.wanted" -}}
{{- $root := index . 0 }}
{{- $object := index . 1 }}
{{- if eq $object.kind "Namespace" }}false
{{- else if hasPrefix "MutatingAdmissionPolicy" $object.kind }}{{ semverCompare ">=1.36.0-0" $root.Capabilities.KubeVersion.Version }}
{{- else if and (eq $object.kind "ClusterRoleBinding") (eq $object.metadata.name "muster-queue-readers") }}{{ $root.Values.queueReaders }}
{{- else if eq $object.kind "NetworkPolicy" }}{{ $root.Values.networkPolicies }}
{{- else if eq $object.kind "PersistentVolumeClaim" }}{{ not $root.Values.history.existingClaim }}
{{- else if eq $object.kind "PodDisruptionBudget" }}{{ (include "muster.program" . | fromYaml).podDisruptionBudget.enabled }}
{{- else }}true
{{- end }}
{{- end }}

{{/*
muster.program prints the values of the program that an object belongs to.
Arguments: the root, the object.
*/}}
{{- define "muster.program" -}}
{{- $root := index . 0 }}
{{- toYaml (index $root.Values (index (index . 1).metadata.labels "app.kubernetes.io/component")) }}
{{- end }}

{{/*
muster.edit changes an object as the values say, and prints nothing.
Arguments: the root, the object.
*/}}
{{- define "muster.edit" -}}
{{- $root := index . 0 }}
{{- $object := index . 1 }}
{{- if eq $object.kind "CustomResourceDefinition" }}
{{- if $root.Values.crds.keep }}
{{- $_ := set $object.metadata.annotations "helm.sh/resource-policy" "keep" }}
{{- end }}
{{- else if eq $object.kind "PodDisruptionBudget" }}
{{- $_ := set $object.spec "maxUnavailable" (include "muster.program" . | fromYaml).podDisruptionBudget.maxUnavailable }}
{{- else if eq $object.kind "PersistentVolumeClaim" }}
{{- $_ := set $object.metadata "annotations" (dict "helm.sh/resource-policy" "keep") }}
{{- $_ := set $object.spec "accessModes" (list $root.Values.history.accessMode) }}
{{- $_ := set $object.spec.resources.requests "storage" $root.Values.history.volumeSize }}
{{- with $root.Values.history.storageClassName }}
{{- $_ := set $object.spec "storageClassName" . }}
{{- end }}
{{- else if has $object.kind (list "ServiceMonitor" "PrometheusRule") }}
{{- $_ := set $object.metadata "labels" (merge $object.metadata.labels $root.Values.monitoring.labels) }}
{{- else if eq $object.kind "Deployment" }}
{{- include "muster.editDeployment" . }}
{{- else if and (eq $object.kind "ConfigMap") (eq $object.metadata.name "muster-scheduler-names") }}
{{- $names := $root.Values.schedulerNames }}
{{- $served := ternary (append $names "default-scheduler") $names $root.Values.replaceDefaultScheduler }}
{{- $_ := set $object "data" (dict "default" (first $names) "served" (join "," $served)) }}
{{- end }}
{{- end }}
