// Package scheduler is the embedded AWS's EventBridge Scheduler: schedules of every expression in any time zone, fired when the clock is told to.
//
// # When something fires
//
// Nothing fires by itself. Tick carries out everything that is due at an instant,
// one after the other and in the order of the instants it was due at, so that a
// test can let a year pass in one call; Run does so whenever the clock gets there.
// An occurrence that lies between two ticks is late, and not lost.
//
// # Clock changes
//
// A cron expression is about wall times. A wall time that a clock change skips
// does not fire that day, and one that comes twice fires the first time only; a
// rate is about elapsed time and takes no notice of either. That is what AWS
// documents, and what a job that works by business date has to live with (HP-10).
//
// # Delivery
//
// Context attributes such as <aws.scheduler.scheduled-time> are replaced in the
// text of the input, wherever they stand literally: an escaped bracket stays as it
// is, as on AWS (HP-12). A target that fails is tried again, ever more slowly,
// until its retry policy is exhausted, and then its dead letter is sent.
package scheduler
