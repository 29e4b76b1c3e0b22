// Command infra is the CDK application: one stack for each region that cdk.json names.
package main

import (
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

func synth() error {
	app := awscdk.NewApp(nil)
	configs, err := region.Configs(func(key string) any { return app.Node().TryGetContext(&key) })
	if err != nil {
		return err
	}
	for _, c := range configs {
		if _, err := region.New(app, c); err != nil {
			return fmt.Errorf("%s: %w", c.Region, err)
		}
	}
	app.Synth(nil)
	return nil
}
