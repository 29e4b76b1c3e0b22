package main

// checks are the commands that find out whether something is right.
type checks struct {
	Policy policyCommands `cmd:"" help:"Look at policies before they are deployed." group:"check"`
	Verify verifyCommand  `cmd:"" help:"Verify that a run's evidence is whole: no byte altered, dropped or put in another place." group:"check"`
}
