package region

import (
	"testing"

	"github.com/cdklabs/cdk-nag-go/cdknag/v2"
	"github.com/aws/jsii-runtime-go"
)

func TestKeep(t *testing.T) { _ = cdknag.NagPackProps{}; _ = jsii.String("") }
