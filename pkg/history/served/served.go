// Package served is the history as an API. muster-controller serves it on its secure port. The API server passes requests on to it.
//
// It is plain HTTP with a few answers, not a generic API server. The filters before it have asked the API server who the client is.
// They have also asked whether it may read records in that namespace. A handler looks at the same reading of the path as these filters, and at nothing else.
package served

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"

	historyv1alpha1 "github.com/muster-sched/muster/pkg/apis/history/v1alpha1"
	"github.com/muster-sched/muster/pkg/history"
)

// Prefix is what all paths of the API begin with.
const Prefix = "/apis/history.muster.sh/"

var resource = schema.GroupResource{Group: historyv1alpha1.SchemeGroupVersion.Group, Resource: historyv1alpha1.Resource}

// readers is how many requests read the history at a time. Others wait: the program has more urgent work.
const readers = 2

// Handler answers the requests for records.
func Handler(store *history.Store) http.Handler {
	h := &handler{store: store, turns: make(chan struct{}, readers)}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := h.serve(w, r); err != nil {
			responsewriters.ErrorNegotiated(err, scheme.Codecs, historyv1alpha1.SchemeGroupVersion, w, r)
		}
	})
}

type handler struct {
	store *history.Store
	turns chan struct{}
}

// serve answers a request. It returns an error only as long as nothing was written.
func (h *handler) serve(w http.ResponseWriter, r *http.Request) error {
	info, known := request.RequestInfoFrom(r.Context())
	if !known {
		return errors.New("the request has no RequestInfo")
	}
	if !info.IsResourceRequest {
		return discovery(w, info.Path)
	}
	if info.APIGroup != resource.Group || info.APIVersion != historyv1alpha1.SchemeGroupVersion.Version || info.Resource != resource.Resource || info.Subresource != "" {
		return apierrors.NewNotFound(schema.GroupResource{Group: info.APIGroup, Resource: info.Resource}, info.Name)
	}
	if info.Verb != "list" && info.Verb != "get" {
		return apierrors.NewMethodNotSupported(resource, info.Verb)
	}
	q, err := parse(info, r.URL.Query())
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	select {
	case h.turns <- struct{}{}:
		defer func() { <-h.turns }()
	case <-r.Context().Done():
		return apierrors.NewTimeoutError("other requests read the history: try again", 1)
	}
	switch {
	case info.Verb == "get":
		return h.get(w, r, q, info.Name)
	case q.by != "":
		return h.report(w, r, q)
	}
	return h.list(w, r, q)
}

// query says which records are asked for.
type query struct {
	history.Scope
	selector fields.Selector
	until    time.Time
	limit    int64
	by       string
}

// fieldsOf are what a field selector can select by.
func fieldsOf(r *historyv1alpha1.Record) fields.Set {
	return fields.Set{
		"metadata.name": NameOf(r), "metadata.namespace": r.Namespace, "record.kind": r.Kind, "record.name": r.Name, "record.user": r.User,
		"record.queue": r.Queue, "record.phase": r.Phase,
	}
}

// NameOf is the name of a record as an object: several Jobs of one name may follow each other.
func NameOf(r *historyv1alpha1.Record) string {
	return r.Name + "-" + string(r.UID[:min(len(r.UID), 8)])
}

// parse reads the parameters of a request.
func parse(info *request.RequestInfo, values url.Values) (*query, error) {
	q := &query{Scope: history.Scope{Namespace: info.Namespace}, by: values.Get(historyv1alpha1.ParameterBy)}
	var err error
	if q.selector, err = fields.ParseSelector(values.Get("fieldSelector")); err != nil {
		return nil, fmt.Errorf("fieldSelector: %w", err)
	}
	for _, requirement := range q.selector.Requirements() {
		if !fieldsOf(&historyv1alpha1.Record{}).Has(requirement.Field) {
			return nil, fmt.Errorf("fieldSelector: %q is none of the fields record.kind, name, user, queue and phase", requirement.Field)
		}
	}
	if selector := values.Get("labelSelector"); selector != "" {
		return nil, errors.New("labelSelector: records have no labels: use fieldSelector, such as record.user=ada")
	}
	for name, at := range map[string]*time.Time{historyv1alpha1.ParameterSince: &q.Since, historyv1alpha1.ParameterUntil: &q.until} {
		if text := values.Get(name); text != "" {
			if *at, err = time.Parse(time.RFC3339, text); err != nil {
				return nil, fmt.Errorf("%s: %q is no time like 2026-01-31T00:00:00Z", name, text)
			}
		}
	}
	if text := values.Get("limit"); text != "" {
		if q.limit, err = strconv.ParseInt(text, 10, 64); err != nil || q.limit < 0 {
			return nil, fmt.Errorf("limit: %q must be 0 or more", text)
		}
	}
	q.Before, err = placeIn(values.Get("continue"))
	return q, err
}

// wants says whether a record is asked for.
func (q *query) wants(r *historyv1alpha1.Record) bool {
	return !r.Ended.Time.Before(q.Since) && (q.until.IsZero() || r.Ended.Time.Before(q.until)) && (q.selector.Empty() || q.selector.Matches(fieldsOf(r)))
}

// token is where a list goes on behind a record.
func token(at history.Position) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%s/%d", at.Segment, at.Offset))
}

// placeIn is the inverse of token.
func placeIn(text string) (at history.Position, err error) {
	if text == "" {
		return at, nil
	}
	plain, err := base64.RawURLEncoding.DecodeString(text)
	segment, offset, isPlace := strings.Cut(string(plain), "/")
	if err == nil && isPlace {
		at.Segment = segment
		at.Offset, err = strconv.Atoi(offset)
	}
	if err != nil || !isPlace || at.Offset < 0 {
		return at, errors.New("continue: give what the last answer has in metadata.continue")
	}
	return at, nil
}

// each passes the records on that are asked for, until one is refused.
func (h *handler) each(ctx context.Context, q *query, do func(entry history.Entry) bool) error {
	for entry, err := range h.store.Read(ctx, q.Scope) {
		if err != nil {
			return apierrors.NewInternalError(err)
		}
		if q.wants(entry.Record) && !do(entry) {
			return nil
		}
	}
	return nil
}

func (h *handler) get(w http.ResponseWriter, r *http.Request, q *query, name string) error {
	var found *historyv1alpha1.Record
	err := h.each(r.Context(), q, func(entry history.Entry) bool {
		if NameOf(entry.Record) == name {
			found = entry.Record
		}
		return found == nil
	})
	if err == nil && found == nil {
		err = apierrors.NewNotFound(resource, name)
	}
	if err != nil {
		return err
	}
	if wantsTable(r) {
		return write(w, tableOf([]metav1.TableRow{row(found)}))
	}
	return write(w, objectOf(found))
}

func (h *handler) report(w http.ResponseWriter, r *http.Request, q *query) error {
	sums, err := history.SumBy(q.by)
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	if err := h.each(r.Context(), q, func(entry history.Entry) bool { sums.Add(entry.Record); return true }); err != nil {
		return err
	}
	report := sums.Report()
	report.TypeMeta = typeOf(historyv1alpha1.ReportKind)
	return write(w, report)
}

// list writes records as it finds them, so that no more than one is in memory. After an error the answer is no JSON.
func (h *handler) list(w http.ResponseWriter, r *http.Request, q *query) error {
	isTable := wantsTable(r)
	var last, next history.Position
	count := int64(0)
	out := json.NewEncoder(w)
	begin, of := listParts(isTable)
	w.Header().Set("Content-Type", "application/json")
	separator := begin
	err := h.each(r.Context(), q, func(entry history.Entry) bool {
		if q.limit > 0 && count == q.limit {
			next = last
			return false
		}
		_, err := io.WriteString(w, separator)
		if err == nil {
			err = out.Encode(of(entry.Record))
		}
		separator, last = ",", entry.Position
		count++
		return err == nil
	})
	switch {
	case err != nil && count == 0:
		return err
	case err != nil:
		klog.FromContext(r.Context()).Error(err, "An answer with records ends early")
		return nil
	case count == 0:
		_, _ = io.WriteString(w, begin)
	}
	metadata := metav1.ListMeta{}
	if next != (history.Position{}) {
		metadata.Continue = token(next)
	}
	encoded, err := json.Marshal(metadata)
	if err == nil {
		_, err = fmt.Fprintf(w, listEnd, encoded)
	}
	if err != nil {
		klog.FromContext(r.Context()).V(2).Info("A client has gone that asked for records", "err", err)
	}
	return nil
}
