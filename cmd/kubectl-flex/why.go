package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flex-provisioner/flex-provisioner/cmd/kubectl-flex/inspect"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/podlog"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

func newWhy(o *options) *cobra.Command {
	c := &cobra.Command{
		Use:   "why CLAIM|PV|POD|vs/NAME|vsc/NAME",
		Short: "Tell what happened for a claim, what holds it up now, and what to do",
		Long: `Tell what happened for a claim, in order: the claim, its hand-over, each attempt with its exit code
and the last lines of its log, the volume and its binding; then what holds it up now, and what to do
about it.

The exit code is 0 if the claim is bound, 3 if it waits, 4 if something is wrong, and 5 if it is not
of this dispatcher.`,
		Example: "  kubectl flex why data\n  kubectl flex why pvc-11111111-2222-4333-8444-555555555555",
		Args:    args(1, 2, "the name of a claim, a volume or a provisioner pod, or the kind and the name of a snapshot"),
		RunE: func(c *cobra.Command, args []string) error {
			namespace, name, err := o.named(strings.Join(args, "/"))
			if err != nil {
				return err
			}
			return o.why(c.Context(), namespace, name)
		},
		ValidArgsFunction: o.completeNames,
	}
	o.addOutput(c)
	return c
}

func (o *options) why(ctx context.Context, namespace, name string) error {
	r, uid, err := o.find(ctx, namespace, name)
	if err != nil {
		return err
	}
	if err := errors.Join(r.attemptNode(ctx, uid), r.consumers(ctx, uid)); err != nil {
		return err
	}
	objects := r.o
	objects.Logs = map[types.UID]string{}
	for _, pod := range objects.WantsLogs(uid) {
		text, err := podlog.Tail(ctx, r.client, pod, podspec.ContainerName)
		if apierrors.IsForbidden(err) {
			objects.Unread = append(objects.Unread, inspect.Unread{Kind: inspect.Logs, Right: "get pods/log in namespace " + pod.Namespace, Why: podspec.Clean(err.Error())})
			break
		}
		objects.Logs[pod.UID] = text
	}
	story := objects.StoryOf(uid)
	if done, err := o.encode(story); err != nil {
		return err
	} else if !done {
		o.printStory(story)
	}
	if story.State.NotOurs != "" {
		return exit{exitNotOurs, errors.New(otherProvisionerMessage(story.State))}
	}
	return exitOf(story.State)
}

// printStory prints a story as text.
func (o *options) printStory(story inspect.Story) {
	s := story.State
	fmt.Fprintf(o.Out, "%s\n\n", heading(s))
	for _, step := range story.Steps {
		times := ""
		if step.Count > 1 {
			times = fmt.Sprintf(" (%d times)", step.Count)
		}
		fmt.Fprintf(o.Out, "%s  %s%s\n", timestamp(step.At), step.What, times)
		for _, line := range step.Log {
			fmt.Fprintf(o.Out, "%s    | %s\n", strings.Repeat(" ", len(timestamp(step.At))), line)
		}
	}
	fmt.Fprintf(o.Out, "\n%-7s%s\n", "Now:", o.paint(colourOf(s), o.summary(s)))
	field := func(name, text string) {
		if text != "" {
			fmt.Fprintf(o.Out, "%-7s%s\n", name+":", text)
		}
	}
	if s.Reason != "" {
		field("Cause", o.paint(colourOf(s), string(s.Reason))+": "+s.Message)
		field("Means", s.Means)
		field("Do", s.Do)
	}
	for _, problem := range story.Class {
		field("Class", string(problem.Reason)+": "+problem.Message)
		field("Do", problem.Do)
	}
	if !s.NextAttempt.IsZero() {
		next := "the next attempt is " + o.until(s.NextAttempt)
		if !s.NextAttempt.After(o.now()) {
			next = "the next attempt is due"
		}
		if story.RetryWith != "" {
			next += "; to have it at once: " + story.RetryWith
		}
		field("Next", next)
	}
	o.printUnread(s, story.Unread)
}

// heading names the claim, or its UID if the claim is gone.
func heading(s inspect.State) string {
	var parts []string
	subject := s.Subject()
	parts = append(parts, strings.ToUpper(subject[:1])+subject[1:])
	if s.Content != "" && s.Snapshot != "" {
		parts = append(parts, "content "+s.Content)
	}
	if s.Volume != "" {
		parts = append(parts, "volume "+s.Volume)
	}
	if s.Class != "" {
		parts = append(parts, "class "+s.Class)
	}
	return strings.Join(parts, ", ")
}

// summary is the claim's state in one line.
func (o *options) summary(s inspect.State) string {
	switch {
	case s.NotOurs != "":
		return otherProvisionerMessage(s)
	case s.Done() && s.Troubled():
		return strings.ToLower(string(s.Phase))
	case s.Done():
		return strings.ToLower(string(s.Phase)) + ", nothing is left to do"
	}
	text := strings.TrimSpace(fmt.Sprintf("%s %s", s.Operation, strings.ToLower(string(s.Phase))))
	if since := o.ago(s.Since); since != "" {
		text += ", for " + since
	}
	return text
}

func timestamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }
