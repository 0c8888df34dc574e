{{/* muster.schedulerConfig prints the configuration of muster-scheduler: the first profile of the manifests under each name. */}}
{{- define "muster.schedulerConfig" -}}
{{- $config := include "muster.file" (list . "files/scheduler/second-scheduler.yaml") | fromYaml }}
{{- $profile := first $config.profiles }}
{{- range $plugin, $args := .Values.pluginArguments }}
{{- $_ := set $profile "pluginConfig" (append $profile.pluginConfig (dict "name" $plugin "args" $args)) }}
{{- end }}
{{- $profiles := list }}
{{- range .Values.schedulerNames }}
{{- $profiles = append $profiles (set (deepCopy $profile) "schedulerName" .) }}
{{- end }}
{{- toYaml (set $config "profiles" $profiles) }}
{{- end }}

{{- define "muster.schedulerConfigName" -}}
muster-scheduler-config-{{ include "muster.schedulerConfig" . | sha256sum | trunc 10 }}
{{- end }}

{{- define "muster.phjobConfigName" -}}
muster-phjob-config-{{ toYaml .Values.phjobs.config | sha256sum | trunc 10 }}
{{- end }}
