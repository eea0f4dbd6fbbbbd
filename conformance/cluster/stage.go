package cluster

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/conformance"
)

// pollInterval is the time between two reads while the kit waits.
const pollInterval = 200 * time.Millisecond

// stage has what the checks of a class have in common.
type stage struct {
	options Options
	api     *client
	allowed map[right]bool
	class   *storagev1.StorageClass
	// config is the class's Config, nil if it could not be read or is not valid. faults are its faults.
	config *configmaps.Config
	faults []string
	// namespace is that of the claims. own is set if this run created it.
	namespace string
	own       *corev1.Namespace
	// prefix is the prefix of the names of all objects of this run.
	prefix  string
	watcher *watcher
	stop    func()
	claims  []*claim
	// secrets are the values that must not be shown.
	secrets []string
}

// open reads the class, and prepares the namespace for the claims.
func (s *stage) open(ctx context.Context) error {
	s.allowed, s.prefix = map[right]bool{}, "conformance-"+strings.ToLower(rand.Text()[:6])+"-"
	s.class = &storagev1.StorageClass{}
	if err := s.api.storage.Get().Resource("storageclasses").Name(s.options.Class).Do(ctx).Into(s.class); err != nil {
		return fmt.Errorf("read StorageClass %s: %w", s.options.Class, err)
	}
	if policy := s.class.ReclaimPolicy; policy != nil && *policy != corev1.PersistentVolumeReclaimDelete {
		return fmt.Errorf("StorageClass %s has reclaimPolicy %s: what is made for the trial would stay; try a class that is the same but for reclaimPolicy Delete", s.class.Name, *policy)
	}
	if s.namespace = s.options.Namespace; s.namespace == "" {
		if err := s.makeNamespace(ctx); err != nil {
			return err
		}
	}
	if err := s.readConfig(ctx); err != nil {
		return err
	}
	lack, err := s.missingRights(ctx, toWatch)
	if err != nil || lack != "" {
		return err
	}
	noLogs, err := s.missingRights(ctx, toLogs)
	if err != nil {
		return err
	}
	// The watch is needed until everything is removed, also after the end of ctx.
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.watcher = newWatcher(s.api, s.options.ProvisionersNamespace, s.namespace+"/"+s.prefix, noLogs == "")
	s.stop = func() { stop(); s.watcher.running.Wait() }
	return s.watcher.start(ctx, watching)
}

func (s *stage) makeNamespace(ctx context.Context) error {
	made := &corev1.Namespace{}
	err := s.api.create(ctx, "", "namespaces", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "flex-conformance-"}}, made)
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("%w; name one of yours with --namespace", err)
	}
	if err != nil {
		return err
	}
	s.namespace, s.own = made.Name, made
	// The API server refuses pods until the namespace has its ServiceAccount.
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	return wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		there, err := s.api.exists(ctx, made.Name, "serviceaccounts", "default", &corev1.ServiceAccount{})
		if apierrors.IsForbidden(err) {
			return true, nil // without the right to read it the kit cannot wait
		}
		return there, err
	})
}

// readConfig reads the class's ConfigMap, if the caller may.
func (s *stage) readConfig(ctx context.Context) error {
	lack, err := s.missingRights(ctx, toConfig)
	if err != nil || lack != "" {
		return err
	}
	var list corev1.ConfigMapList
	if err := s.api.list(ctx, s.options.ProvisionersNamespace, "configmaps",
		metav1.ListOptions{LabelSelector: configmaps.LabelType + "=" + configmaps.TypeProvisioner}, &list); err != nil {
		return err
	}
	s.config, s.faults = configOf(list.Items, s.class)
	return nil
}

// waitsForConsumer reports whether claims are bound only once a pod uses them.
func (s *stage) waitsForConsumer() bool {
	mode := s.class.VolumeBindingMode
	return mode != nil && *mode == storagev1.VolumeBindingWaitForFirstConsumer
}

// try runs one check, or says why not.
func (s *stage) try(ctx context.Context, c check, before []conformance.Result) (result conformance.Result, err error) {
	result = conformance.Result{Name: c.Name, Required: c.Required, Rule: c.Rule, Did: c.Did, Status: conformance.Skipped}
	if len(s.options.Only) > 0 && !slices.Contains(s.options.Only, c.Name) {
		result.Reason = "it was not asked for"
		return result, nil
	}
	if slices.ContainsFunc(before, func(r conformance.Result) bool { return r.Name == "bound" && r.Status == conformance.Failed }) && c.Name != "secrets" {
		result.Reason = "nothing else can be tried before a claim is bound"
		return result, nil
	}
	lack, err := s.missingRights(ctx, s.needs(c))
	if err != nil {
		return result, err
	}
	if lack != "" {
		result.Reason = "not checked: " + lack
		return result, nil
	}
	if c.applies != nil {
		if why := c.applies(s); why != "" {
			result.Status, result.Reason = conformance.NotApplicable, why
			return result, nil
		}
	}
	begun := time.Now()
	t := &trial{stage: s, ctx: ctx}
	if err := t.protect(func() { c.run(t) }); err != nil {
		return result, err
	}
	result.Took = time.Since(begun)
	for _, f := range t.findings {
		result.Findings = append(result.Findings, conformance.Finding{Expected: s.redact(f.Expected), Came: s.redact(f.Came),
			Remedy: f.Remedy, Log: s.redact(conformance.LastLines(f.Log))})
	}
	switch {
	case len(t.findings) > 0:
		result.Status = conformance.Failed
	case t.status != "":
		result.Status, result.Reason = t.status, s.redact(t.reason)
	default:
		result.Status, result.Reason = conformance.Passed, t.note
	}
	return result, nil
}

func (s *stage) redact(text string) string { return conformance.Redact(text, s.secrets) }

// close removes what was made, also after the end of ctx, and waits until it is gone.
func (s *stage) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*s.options.Timeout+lateAnswers) // the limits below are lower
	defer cancel()
	if s.stop != nil {
		defer s.stop()
	}
	t := &trial{stage: s, ctx: ctx}
	var faults []error
	for _, c := range s.claims {
		faults = append(faults, t.protect(func() { t.discard(c) }))
	}
	faults = append(faults, t.protect(func() {
		left := t.untilGone(func() string {
			var all []string
			for _, c := range s.claims {
				if left := t.left(c); left != "" {
					all = append(all, left+t.lastWarningOn(c))
				}
			}
			return strings.Join(all, "\n")
		})
		if left != "" {
			t.must(fmt.Errorf("left behind: %s", left))
		}
	}))
	if s.own != nil {
		faults = append(faults, s.removeNamespace(ctx))
	}
	return errors.Join(faults...)
}

func (s *stage) removeNamespace(ctx context.Context) error {
	if err := s.api.remove(ctx, "", "namespaces", s.own.Name, s.own.UID); err != nil {
		return err
	}
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		there, err := s.api.exists(ctx, "", "namespaces", s.own.Name, &corev1.Namespace{})
		return !there, err
	})
	if err != nil {
		return fmt.Errorf("wait until namespace %s is gone: %w", s.own.Name, err)
	}
	return nil
}
