package redrive

import (
	"context"
	"strings"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

const opBrake = "brake"

// BrakeInForce is a brake.
type BrakeInForce struct {
	Policy  string    `json:"policy,omitzero"`         // "" is the whole region
	Version int       `json:"policy_version,omitzero"` // 0 is every version
	Reason  string    `json:"reason"`
	By      string    `json:"by"`
	At      time.Time `json:"at"`
}

// Brakes is what is in force after a brake was set or released.
type Brakes struct {
	Brakes []BrakeInForce `json:"brakes"`
	// StoppedBy is when no delete under the new brake can begin any more.
	StoppedBy time.Time `json:"stopped_by,omitzero"`
	// Effect says when the order takes effect.
	Effect string `json:"effect"`
}

// brake sets or releases a brake of exactly the scope that is named.
func (r *Redriver) brake(ctx context.Context, _ time.Time, q BrakeRequest) (a Brakes, err error) {
	if err := q.Signature.Check(opBrake); err != nil {
		return a, err
	}
	if q.Set != On && q.Set != Off {
		return a, failure.New(failure.Invalid, opBrake, "set is on or off")
	}
	if q.Policy != "" && !isName(q.Policy) {
		return a, failure.New(failure.Invalid, opBrake, nameText)
	}
	if q.Version < 0 || q.Version > 0 && q.Policy == "" {
		return a, failure.New(failure.Invalid, opBrake, "policy_version is a version of the policy that is named, 1 or higher; without it the brake is on every version")
	}
	b := job.Brake{Policy: q.Policy, Version: q.Version, Reason: q.Reason, By: q.By}
	entry := audit.Entry{Act: audit.BrakeSet, Policy: q.Policy, Version: q.Version}
	if q.Set == On {
		if err := r.exists(ctx, q); err != nil {
			return a, err
		}
		if err := r.order(ctx, q.Signature, entry); err != nil {
			return a, err
		}
		b.At = r.now()
		err = r.Brakes.SetBrake(ctx, b)
		a.StoppedBy = r.now().Add(r.Settings.FunctionTimeout)
		a.Effect = "From the next claim on no page under the brake is taken. Deletes of claims that were taken before stop within one function timeout, by " +
			at(a.StoppedBy) + ". Pages under the brake are parked and lose neither attempts nor age."
	} else {
		if b.At, err = r.inForce(ctx, b); err != nil {
			return a, err
		}
		entry.Act = audit.BrakeReleased
		if err := r.order(ctx, q.Signature, entry); err != nil {
			return a, err
		}
		err = r.Brakes.ReleaseBrake(ctx, b)
		a.Effect = "Parked pages are due at once: reconcile sends them in its next pass, within " + r.Settings.ReconcileEvery.String() + "."
	}
	all, rerr := r.Brakes.Brakes(ctx)
	if rerr != nil {
		return Brakes{}, rerr
	}
	if err != nil && stands(all, b, q.Set == On) { // the answer was lost, and it happened
		err = nil
	}
	if err == nil && q.Set == Off && !stands(all, b, false) {
		err = failure.New(failure.Conflict, opBrake, "somebody has set the brake anew since it was looked at: look at its reason, and release it again")
	}
	a.Brakes = inForce(all)
	return a, err
}

// exists refuses a scope that would stop nothing, as a misspelled name does.
func (r *Redriver) exists(ctx context.Context, q BrakeRequest) (err error) {
	switch {
	case q.Policy == "":
		return nil
	case q.Version == 0:
		_, err = r.Policies.LatestPolicy(ctx, q.Policy)
	default:
		_, err = r.Policies.Policy(ctx, q.Policy, q.Version)
	}
	if failure.Is(err, failure.UnknownPolicy) {
		return failure.New(failure.Absent, opBrake, "no such policy or version was ever published, so the brake would stop nothing: look at the name; without one the brake is on the region")
	}
	return err
}

// inForce says since when the brake is set, and refuses to release what is not.
func (r *Redriver) inForce(ctx context.Context, b job.Brake) (since time.Time, err error) {
	all, err := r.Brakes.Brakes(ctx)
	if err != nil {
		return since, err
	}
	scopes := make([]string, len(all))
	for i, o := range all {
		if scopes[i] = scopeOf(o); o.Policy == b.Policy && o.Version == b.Version {
			return o.At, nil
		}
	}
	if len(scopes) == 0 {
		scopes = []string{"none"}
	}
	return since, failure.New(failure.Absent, opBrake, "no brake on "+scopeOf(b)+" is in force; in force: "+strings.Join(scopes, ", "))
}

// stands reports whether the brakes are as the order wants them: with exactly this
// one, or without any of its scope.
func stands(all []job.Brake, b job.Brake, set bool) bool {
	for _, o := range all {
		if o.Policy == b.Policy && o.Version == b.Version {
			return set && o.By == b.By && o.Reason == b.Reason && o.At.Equal(b.At)
		}
	}
	return !set
}

func inForce(all []job.Brake) []BrakeInForce {
	list := make([]BrakeInForce, len(all))
	for i, b := range all {
		list[i] = BrakeInForce{b.Policy, b.Version, b.Reason, b.By, b.At.UTC()}
	}
	return list
}
