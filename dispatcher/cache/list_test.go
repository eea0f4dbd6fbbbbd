package cache

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// pages is an API server with 120 large claims, which answers from its cache, and then with all of them, for version 0.
type pages struct {
	lists []metav1.ListOptions
	last  []corev1.PersistentVolumeClaim // of the last page, which the caller may have changed
	kept  int                            // the most claims that were not stripped when another page was asked for
	fault error
}

func (p *pages) list(_ context.Context, options metav1.ListOptions) (*corev1.PersistentVolumeClaimList, error) {
	p.lists = append(p.lists, options)
	if p.fault != nil && options.Continue != "" {
		return nil, p.fault
	}

	large := 0
	for _, claim := range p.last {
		if claim.Labels != nil {
			large++
		}
	}

	p.kept = max(p.kept, large)

	from, end := 0, 120
	_, _ = fmt.Sscan(options.Continue, &from)
	answer := &corev1.PersistentVolumeClaimList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}}
	if options.ResourceVersion != "0" && options.Limit > 0 && from+int(options.Limit) < end {
		end = from + int(options.Limit)
		answer.Continue = fmt.Sprint(end)
	}

	for i := from; i < end; i++ {
		claim := corev1.PersistentVolumeClaim{}
		claim.Name, claim.Labels = fmt.Sprint(i), map[string]string{"a": strings.Repeat("x", 1000)}
		answer.Items = append(answer.Items, claim)
	}

	p.last = answer.Items

	return answer, nil
}

// An API server that does not stream is asked for pages, and what is not read of a page is gone before the next one
// comes.
func TestListInPages(t *testing.T) {
	var l transformer
	p := &pages{}
	all, err := listInPages(t.Context(), p.list, metav1.ListOptions{ResourceVersion: "0",
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, Limit: 500}, l.claim)
	if err != nil {
		t.Fatal(err)
	}

	want := []metav1.ListOptions{{Limit: pageSize}, {Limit: pageSize, Continue: "50"},
		{Limit: pageSize, Continue: "100"}}
	if !slices.Equal(p.lists, want) || p.kept > 0 {
		t.Errorf("asked for %+v, and kept %d whole claims; want %+v and none", p.lists, p.kept, want)
	}

	if all.ResourceVersion != "7" || all.Continue != "" || len(all.Items) != 120 {
		t.Errorf("got %d claims of version %q, and more at %q", len(all.Items), all.ResourceVersion, all.Continue)
	}

	for i, claim := range all.Items {
		if claim.Name != fmt.Sprint(i) || claim.Labels != nil {
			t.Fatalf("claim %d is %+v", i, claim.ObjectMeta)
		}
	}

	p.fault = errors.New("expired")
	all, err = listInPages(t.Context(), p.list, metav1.ListOptions{}, l.claim)
	if all != nil || !errors.Is(err, p.fault) {
		t.Errorf("got %v and %v, want %v", all, err, p.fault)
	}
}
