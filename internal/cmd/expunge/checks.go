package main

// checks are the commands that find out whether something is right.
type checks struct {
	Verify  verifyCommand  `cmd:"" help:"Verify that a run's evidence is whole: no byte altered, dropped or put in another place." group:"check"`
	Policy  policyCommands `cmd:"" help:"Look at policies before they are deployed." group:"check"`
	Doctor  doctorCommand  `cmd:"" help:"Look whether the deployment is as it should be, and say how to mend what is not." group:"check"`
	Drill   drillCommand   `cmd:"" help:"Rehearse a recovery on a test tenant, from the injected failure to the evidence." group:"check"`
	Review  reviewCommand  `cmd:"" help:"Answer the five questions before a team goes on, by evidence of this deployment: go or stop." group:"check"`
	Tune    tuneCommand    `cmd:"" help:"Derive concurrency and alarm thresholds from measured rates, with the arithmetic." group:"check"`
	Version versionCommand `cmd:"" help:"Say which version this program is." group:"check"`
}
