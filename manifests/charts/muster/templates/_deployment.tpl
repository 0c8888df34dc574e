{{/*
muster.editDeployment changes a Deployment as the values say, and prints nothing.
Arguments: the root, the Deployment.
*/}}
{{- define "muster.editDeployment" -}}
{{- $root := index . 0 }}
{{- $deployment := index . 1 }}
{{- $program := include "muster.program" . | fromYaml }}
{{- $pod := $deployment.spec.template.spec }}
{{- $container := first $pod.containers }}
{{- $_ := set $deployment.spec "replicas" $program.replicas }}
{{- $_ := set $container "image" (include "muster.image" $root) }}
{{- $_ := set $container "resources" $program.resources }}
{{- $_ := set $pod "priorityClassName" $program.priorityClassName }}
{{- range $field := list "nodeSelector" "tolerations" "affinity" }}
{{- with index $program $field }}
{{- $_ := set $pod $field . }}
{{- end }}
{{- end }}
{{- with $root.Values.image.pullPolicy }}
{{- $_ := set $container "imagePullPolicy" . }}
{{- end }}
{{- with $root.Values.image.pullSecrets }}
{{- $_ := set $pod "imagePullSecrets" . }}
{{- end }}
{{- $env := $program.env }}
{{- if eq $container.name "controller" }}
{{- $_ := set $container "args" (include "muster.controllerArgs" (list $root $container.args) | fromYamlArray) }}
{{- include "muster.editPhJobs" (list $root $pod) }}
{{- include "muster.editHistory" (list $root $deployment) }}
{{- if not $root.Values.phjobs.enabled }}
{{- $env = merge (dict "PRIMEHUB_FEATURE_JOB_SUBMISSION" "false") $env }}
{{- end }}
{{- else }}
{{- $_ := set $container "args" (include "muster.schedulerArgs" (list $root $container.args) | fromYamlArray) }}
{{- $_ := set (first $pod.volumes).configMap "name" (include "muster.schedulerConfigName" $root) }}
{{- end }}
{{- with $env }}
{{- $_ := set $container "env" (concat ($container.env | default list) (include "muster.env" . | fromYamlArray)) }}
{{- end }}
{{- end }}

{{/*
muster.editPhJobs mounts the configuration of PhJobs, if the values have one, and prints nothing.
Arguments: the root, the spec of muster-controller's pods.
*/}}
{{- define "muster.editPhJobs" -}}
{{- $root := index . 0 }}
{{- $pod := index . 1 }}
{{- if $root.Values.phjobs.config }}
{{- $source := dict "name" (include "muster.phjobConfigName" $root) }}
{{- $_ := set $pod "volumes" (list (dict "name" "phjobs" "configMap" $source)) }}
{{- $_ := set (first $pod.containers) "volumeMounts" (list (dict "name" "phjobs" "mountPath" "/etc/muster" "readOnly" true)) }}
{{- end }}
{{- end }}

{{/*
muster.editHistory mounts the volume of the history, if there is one, and prints nothing. A volume that one node mounts at a time cannot be
mounted by a new pod while the old one runs.
Arguments: the root, the Deployment of muster-controller.
*/}}
{{- define "muster.editHistory" -}}
{{- $root := index . 0 }}
{{- $deployment := index . 1 }}
{{- $history := $root.Values.history }}
{{- if $history.enabled }}
{{- $pod := $deployment.spec.template.spec }}
{{- $container := first $pod.containers }}
{{- $source := dict "claimName" ($history.existingClaim | default "muster-history") }}
{{- $_ := set $pod "volumes" (append ($pod.volumes | default list) (dict "name" "history" "persistentVolumeClaim" $source)) }}
{{- $mount := dict "name" "history" "mountPath" "/var/lib/muster" }}
{{- $_ := set $container "volumeMounts" (append ($container.volumeMounts | default list) $mount) }}
{{- $_ := set $pod.securityContext "fsGroup" 65532 }}
{{- if ne $history.accessMode "ReadWriteMany" }}
{{- if gt (int $root.Values.controller.replicas) 1 }}
{{- fail "history.accessMode: with a volume of ReadWriteOnce only one replica can run: set controller.replicas to 1, or take a storage class with ReadWriteMany" }}
{{- end }}
{{- $_ := set $deployment.spec "strategy" (dict "type" "Recreate") }}
{{- end }}
{{- end }}
{{- end }}

{{/* muster.image prints the name of the image. */}}
{{- define "muster.image" -}}
{{- with .Values.image }}
{{- .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag }}{{ end }}
{{- end }}
{{- end }}

{{/* muster.env prints variables as a container has them. Argument: values by name. */}}
{{- define "muster.env" -}}
{{- range $name, $value := . }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- end }}

{{/* muster.featureGates prints the flag for feature gates as an item of a list, if there are any. Argument: booleans by name. */}}
{{- define "muster.featureGates" -}}
{{- $gates := list }}
{{- range $gate, $on := . }}
{{- $gates = append $gates (printf "%s=%t" $gate $on) }}
{{- end }}
{{- with $gates }}
- --feature-gates={{ join "," . }}
{{- end }}
{{- end }}

{{/*
muster.schedulerArgs prints the arguments of muster-scheduler: those of the manifests, with the feature gates of the values.
Arguments: the root, the arguments of the manifests.
*/}}
{{- define "muster.schedulerArgs" -}}
{{- $values := (index . 0).Values.scheduler }}
{{- range index . 1 }}
{{- if not (hasPrefix "--feature-gates=" .) }}
- {{ . }}
{{- end }}
{{- end }}
{{- include "muster.featureGates" $values.featureGates }}
{{- range $values.extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end }}

{{/*
muster.controllerArgs prints the arguments of muster-controller: those of the manifests, and what the values add.
Arguments: the root, the arguments of the manifests.
*/}}
{{- define "muster.controllerArgs" -}}
{{- range index . 1 }}
- {{ . }}
{{- end }}
{{- with index . 0 }}
{{- with join "," .Values.schedulerNames }}
{{- if ne . "muster,volcano" }}
- --podgroup-scheduler-names={{ . }}
{{- end }}
{{- end }}
{{- if ne .Release.Namespace "muster-system" }}
- --leader-elect-resource-namespace={{ .Release.Namespace }}
{{- end }}
{{- if .Values.comingFromVolcano }}
- --depends-on-condition=Ready
{{- end }}
{{- if .Values.phjobs.config }}
- --primehub-config=/etc/muster/primehub.yaml
{{- end }}
{{- if .Values.history.enabled }}
- --history-dir=/var/lib/muster/history
{{- if ne .Values.history.maxSize "512Mi" }}
- --history-max-size={{ .Values.history.maxSize }}
{{- end }}
{{- with .Values.history.maxAge }}
- --history-max-age={{ . }}
{{- end }}
{{- end }}
{{- if .Values.history.log }}
- --history-log
{{- end }}
{{- include "muster.featureGates" .Values.controller.featureGates }}
{{- range .Values.controller.extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end }}
{{- end }}
