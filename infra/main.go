// Command infra is the CDK application: one stack for each region that cdk.json names.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"

	"github.com/expunge-aws/expunge/infra/region"
)

func main() {
	err := synth()
	jsii.Close() // os.Exit would pass a defer by and leave the kernel's files behind
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func synth() (err error) {
	// The CDK says what it refuses in a panic, whose stack is its own and no help.
	defer func() {
		if refused := recover(); refused != nil {
			err = fmt.Errorf("the CDK refuses: %v", refused)
		}
	}()
	app := awscdk.NewApp(nil)
	context, ok := app.Node().GetAllContext(nil).(map[string]any)
	if !ok {
		return errors.New("the CDK gives no context: run it by make or by the CDK's command line")
	}
	configs, err := region.Configs(context)
	if err != nil {
		return err
	}
	for _, c := range configs {
		if c.Unheard() {
			fmt.Fprintln(os.Stderr, c.Region+": no alarm would reach anybody: give page_emails or page_urls")
		}
		if _, err := region.New(app, c); err != nil {
			return fmt.Errorf("%s: %w", c.Region, err)
		}
	}
	app.Synth(nil)
	return nil
}
