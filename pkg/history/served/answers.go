package served

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"

	historyv1alpha1 "github.com/muster-sched/muster/pkg/apis/history/v1alpha1"
)

func typeOf(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: historyv1alpha1.SchemeGroupVersion.String(), Kind: kind}
}

// objectOf is a record as an object of the API.
func objectOf(r *historyv1alpha1.Record) *historyv1alpha1.JobRecord {
	return &historyv1alpha1.JobRecord{
		TypeMeta:   typeOf(historyv1alpha1.RecordKind),
		ObjectMeta: metav1.ObjectMeta{Name: NameOf(r), Namespace: r.Namespace, UID: r.UID, CreationTimestamp: r.Created},
		Record:     *r,
	}
}

// discovery answers what the version of the API has. The API server knows the rest by itself.
func discovery(w http.ResponseWriter, path string) error {
	if strings.Trim(strings.TrimPrefix(path, Prefix), "/") != historyv1alpha1.SchemeGroupVersion.Version {
		return apierrors.NewNotFound(resource, path)
	}
	return write(w, &metav1.APIResourceList{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: historyv1alpha1.SchemeGroupVersion.String(),
		APIResources: []metav1.APIResource{{
			Name: historyv1alpha1.Resource, SingularName: "jobrecord", Namespaced: true, Kind: historyv1alpha1.RecordKind,
			Verbs: metav1.Verbs{"get", "list"},
		}},
	})
}

// write writes an answer. An error after that is the client's, which has gone.
func write(w http.ResponseWriter, answer any) error {
	encoded, err := json.Marshal(answer)
	if err != nil {
		return fmt.Errorf("encoding the answer: %w", err)
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(encoded)
	return nil
}

// wantsTable says whether a client asks for a table, as kubectl does to print one.
func wantsTable(r *http.Request) bool { return strings.Contains(r.Header.Get("Accept"), "as=Table") }

var columns = []metav1.TableColumnDefinition{
	{Name: "Name", Type: "string", Format: "name", Description: "Name of the Job."},
	{Name: "Kind", Type: "string", Description: "Job or PhJob."},
	{Name: "User", Type: "string", Description: "User of the Job."},
	{Name: "Queue", Type: "string", Description: "Queue of the Job."},
	{Name: "Phase", Type: "string", Description: "Phase in which it ended."},
	{Name: "Waited", Type: "string", Description: "Time until it ran."},
	{Name: "Ran", Type: "string", Description: "Time that it ran."},
	{Name: "Ended", Type: "string", Description: "Time since its end."},
	{Name: "Evictions", Type: "integer", Priority: 1, Description: "Evictions of its pods."},
	{Name: "Reason", Type: "string", Priority: 1, Description: "Why it ended."},
	{Name: "Message", Type: "string", Priority: 1, Description: "Why it ended."},
}

// row is a record in a table.
func row(r *historyv1alpha1.Record) metav1.TableRow {
	object := objectOf(r)
	metadata := &metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"}, ObjectMeta: object.ObjectMeta}
	return metav1.TableRow{
		Cells: []any{
			r.Name, r.Kind, r.User, r.Queue, r.Phase, seconds(r.WaitSeconds), seconds(r.RunSeconds), duration.HumanDuration(time.Since(r.Ended.Time)),
			r.Evictions, r.Reason, r.Message,
		},
		Object: runtime.RawExtension{Object: metadata},
	}
}

func seconds(n int64) string { return duration.HumanDuration(time.Duration(n) * time.Second) }

func tableOf(rows []metav1.TableRow) *metav1.Table {
	return &metav1.Table{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "Table"}, ColumnDefinitions: columns, Rows: rows}
}

// listEnd is the end of a list, with a place for its metadata.
const listEnd = `],"metadata":%s}`

// listParts are the beginning of a list, and the form of a record in it.
func listParts(isTable bool) (begin string, of func(*historyv1alpha1.Record) any) {
	if !isTable {
		return fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"items":[`, historyv1alpha1.SchemeGroupVersion, historyv1alpha1.ListKind),
			func(r *historyv1alpha1.Record) any { return objectOf(r) }
	}
	definitions, _ := json.Marshal(columns) // they are constant
	return fmt.Sprintf(`{"apiVersion":"meta.k8s.io/v1","kind":"Table","columnDefinitions":%s,"rows":[`, definitions),
		func(r *historyv1alpha1.Record) any { return row(r) }
}
