package main

// checks are the commands that find out whether something is right.
type checks struct {
	Verify verifyCommand `cmd:"" help:"Verify that a run's evidence is whole: no byte altered, dropped or put in another place." group:"check"`
}
