package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// IAM is asked one question, so it is asked by hand: the SDK's client of IAM is
// larger than the rest of this tool.
const (
	iamEndpoint = "https://iam.amazonaws.com/"
	iamRegion   = "us-east-1" // where all of IAM is signed for
	iamVersion  = "2010-05-08"
)

// simulate asks IAM which of the rights the role's own policies do not allow. The
// error says in a few words why it was not asked, or did not answer.
func (r *deployment) simulate(ctx context.Context, role string, rights []permission) (missing []string, err error) {
	switch {
	case r.local:
		return nil, errors.New("a local deployment has no IAM")
	case role == "":
		return nil, errors.New("its role is not known")
	case !strings.HasPrefix(role, "arn:aws:"):
		return nil, errors.New("this tool does not know IAM's endpoint in this partition")
	}
	ctx, done := r.config.Limit(ctx)
	defer done()
	for _, p := range rights {
		decision, err := simulation(ctx, r.config.Config, iamEndpoint, role, p)
		if err != nil {
			return nil, err
		}
		if decision != "allowed" {
			missing = append(missing, p.action+" ("+decision+")")
		}
	}
	return missing, nil
}

// maxAnswer caps what is read of an answer of IAM, in bytes.
const maxAnswer = 1 << 20

// simulation asks for one right, and returns allowed, implicitDeny or explicitDeny.
func simulation(ctx context.Context, c aws.Config, endpoint, role string, p permission) (string, error) {
	body := []byte(url.Values{
		"Action": {"SimulatePrincipalPolicy"}, "Version": {iamVersion}, "PolicySourceArn": {role},
		"ActionNames.member.1": {p.action}, "ResourceArns.member.1": {p.resource},
	}.Encode())
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, bytes.NewReader(body))
	if err != nil {
		return "", errors.New("IAM's endpoint does not read")
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
	credentials, err := c.Credentials.Retrieve(ctx)
	if err != nil {
		return "", errors.New("there are no credentials to ask IAM with")
	}
	sum := sha256.Sum256(body)
	if err := v4.NewSigner().SignHTTP(ctx, credentials, request, hex.EncodeToString(sum[:]), "iam", iamRegion, time.Now()); err != nil {
		return "", errors.New("the question to IAM could not be signed")
	}
	response, err := c.HTTPClient.Do(request)
	if err != nil {
		return "", errors.New("IAM did not answer")
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return "", errors.New("IAM did not answer")
	}
	return decisionIn(response.StatusCode, text)
}

// decisionIn reads an answer.
func decisionIn(status int, text []byte) (string, error) {
	if status != http.StatusOK {
		var refusal struct {
			Code string `xml:"Error>Code"`
		}
		if xml.Unmarshal(text, &refusal) != nil || refusal.Code == "" {
			return "", errors.New("IAM refused, status " + http.StatusText(status))
		}
		if refusal.Code == "AccessDenied" {
			return "", errors.New("your credentials may not use iam:SimulatePrincipalPolicy")
		}
		return "", errors.New("IAM refused, " + refusal.Code)
	}
	var answer struct {
		Decisions []string `xml:"SimulatePrincipalPolicyResult>EvaluationResults>member>EvalDecision"`
	}
	if xml.Unmarshal(text, &answer) != nil || len(answer.Decisions) != 1 {
		return "", errors.New("IAM's answer does not read")
	}
	return answer.Decisions[0], nil
}
