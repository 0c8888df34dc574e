{{/* muster.schedulerConfig prints the configuration of muster-scheduler: the first profile of the manifests under each name. */}}
{{- define "muster.schedulerConfig" -}}
{{- $config := include "muster.file" (list . "files/scheduler/second-scheduler.yaml") | fromYaml }}
{{- $profile := first $config.profiles }}
{{- range $plugin, $args := .Values.pluginArguments }}
{{- $others := list }}
{{- $merged := dict }}
{{- range $profile.pluginConfig }}
{{- if eq .name $plugin }}{{ $merged = .args }}{{ else }}{{ $others = append $others . }}{{ end }}
{{- end }}
{{- range $name, $value := $args }}{{ $_ := set $merged $name $value }}{{ end }}
{{- $_ := set $profile "pluginConfig" (append $others (dict "name" $plugin "args" $merged)) }}
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
