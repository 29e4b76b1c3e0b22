package lambda

import (
	"encoding/json"
	"math"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

// Scope is the service's name in a credential scope.
func (s *Service) Scope() string { return "lambda" }

const (
	functionsPath = "/2015-03-31/functions"
	mappingsPath  = "/2015-03-31/event-source-mappings"
	// concurrencyPath is where reserved concurrency is read; it came in another year.
	concurrencyPath = "/2019-09-30/functions"
)

// Operation names the operation of a request.
func (s *Service) Operation(r *http.Request) string {
	path := strings.TrimSuffix(r.URL.Path, "/") // boto3 sends the lists with a slash
	if rest, ok := strings.CutPrefix(path, functionsPath); ok {
		parts := strings.Split(rest, "/")
		switch {
		case r.Method == http.MethodGet && rest == "":
			return "ListFunctions"
		case r.Method == http.MethodGet && len(parts) == 2:
			return "GetFunction"
		case r.Method == http.MethodGet && len(parts) == 3 && parts[2] == "configuration":
			return "GetFunctionConfiguration"
		case r.Method == http.MethodPost && len(parts) == 3 && parts[2] == "invocations":
			return "Invoke"
		}
	}
	if rest, ok := strings.CutPrefix(path, concurrencyPath); ok && r.Method == http.MethodGet && strings.HasSuffix(rest, "/concurrency") {
		return "GetFunctionConcurrency"
	}
	if rest, ok := strings.CutPrefix(path, mappingsPath); ok && r.Method == http.MethodGet {
		switch parts := strings.Split(rest, "/"); {
		case rest == "":
			return "ListEventSourceMappings"
		case len(parts) == 2:
			return "GetEventSourceMapping"
		}
	}
	return ""
}

// Serve answers a request.
func (s *Service) Serve(w http.ResponseWriter, r *wire.Request) {
	if injected := wire.FateOf(r.Context()).Error; injected != nil {
		refuse(w, injected)
		return
	}
	var result any
	var err *wire.Error
	switch r.Operation {
	case "Invoke":
		s.serveInvoke(w, r)
		return
	case "ListFunctions":
		result, err = s.listFunctions(r)
	case "GetFunction":
		result, err = s.getFunction(r)
	case "GetFunctionConfiguration":
		result, err = s.getFunctionConfiguration(r)
	case "GetFunctionConcurrency":
		result, err = s.getFunctionConcurrency(r)
	case "ListEventSourceMappings":
		result, err = s.listMappings(r)
	case "GetEventSourceMapping":
		result, err = s.getMapping(r)
	default:
		err = wire.Unsupported("the Lambda operation " + r.Method + " " + r.URL.Path)
	}
	if err != nil {
		refuse(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(result) // a client that has gone can not be told
}

// refuse answers with an error in Lambda's form.
func refuse(w http.ResponseWriter, err *wire.Error) {
	kind := "User"
	if err.Status >= http.StatusInternalServerError {
		kind = "Service"
	}
	body := map[string]any{"Type": kind, "Message": err.Message}
	for name, value := range err.Fields {
		body[name] = value
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Amzn-ErrorType", err.Code)
	w.WriteHeader(err.Status)
	_ = json.NewEncoder(w).Encode(body) // a client that has gone can not be told
}

// named finds the function that the path names.
func (s *Service) named(r *wire.Request) (*function, *wire.Error) {
	_, rest, _ := strings.Cut(r.URL.Path, "/functions/")
	name, _, _ := strings.Cut(rest, "/")
	if q := r.URL.Query().Get("Qualifier"); q != "" {
		name += ":" + q
	}
	return s.function(r.Region, name)
}

// serveInvoke answers Invoke.
func (s *Service) serveInvoke(w http.ResponseWriter, r *wire.Request) {
	f, err := s.named(r)
	if err == nil {
		err = checkInvoke(r)
	}
	if err != nil {
		refuse(w, err)
		return
	}
	i := newInvocation(r.Body, parseTrace(r.Header.Get("X-Amzn-Trace-Id")).hop(f))
	switch r.Header.Get("X-Amz-Invocation-Type") {
	case "DryRun":
		w.WriteHeader(http.StatusNoContent)
		return
	case "Event":
		if err := s.queue(f, i); err != nil {
			refuse(w, err)
			return
		}
		w.WriteHeader(http.StatusAccepted)
		return
	}
	result, err := s.run(r.Context(), f, i)
	if err != nil {
		refuse(w, err)
		return
	}
	if result.FunctionError != "" {
		w.Header().Set("X-Amz-Function-Error", result.FunctionError)
	}
	w.Header().Set("X-Amz-Executed-Version", latest)
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(result.Payload) // a client that has gone can not be told
}

// checkInvoke refuses what Lambda refuses, and what would be ignored here.
func checkInvoke(r *wire.Request) *wire.Error {
	for _, header := range []string{"X-Amz-Client-Context", "X-Amz-Durable-Execution-Name", "X-Amz-Tenant-Id"} {
		if r.Header.Get(header) != "" {
			return wire.Unsupported("the header " + header + " of Invoke")
		}
	}
	if t := r.Header.Get("X-Amz-Log-Type"); t != "" && t != "None" {
		return wire.Unsupported("the log type " + t + " of Invoke")
	}
	limit := maxPayload
	switch t := r.Header.Get("X-Amz-Invocation-Type"); t {
	case "", "RequestResponse", "DryRun":
	case "Event":
		limit = maxEventPayload
	default:
		return invalid("Value '%s' at 'invocationType' failed to satisfy constraint: Member must satisfy enum value set: [Event, RequestResponse, DryRun]", t)
	}
	switch {
	case len(r.Body) > limit:
		return &wire.Error{
			Status: http.StatusRequestEntityTooLarge, Code: "RequestTooLargeException",
			Message: strconv.Itoa(len(r.Body)) + " byte payload is too large for the invocation type (limit " + strconv.Itoa(limit) + " bytes)",
		}
	case len(r.Body) > 0 && !json.Valid(r.Body):
		return wire.Bad("InvalidRequestContentException", "Could not parse request body into json: it is no JSON document")
	}
	return nil
}

// configuration describes a function.
func (f *function) configuration() map[string]any {
	architecture := runtime.GOARCH // a binary runs on this machine
	if architecture == "amd64" {
		architecture = "x86_64"
	}
	c := map[string]any{
		"FunctionName": f.Name, "FunctionArn": f.arn(), "Version": latest, "Architectures": []string{architecture},
		"Runtime": "provided.al2023", "Handler": "bootstrap", "PackageType": "Zip",
		"Timeout": int(math.Ceil(f.Timeout.Seconds())), "MemorySize": 128,
		"State": "Active", "LastUpdateStatus": "Successful",
		"LastModified": f.modified.UTC().Format("2006-01-02T15:04:05.000+0000"),
	}
	if variables := f.variables(); len(variables) > 0 {
		c["Environment"] = map[string]any{"Variables": variables}
	}
	return c
}

// variables are what somebody configured. What Lambda sets itself can not be
// configured on AWS, and where it is given here it is kept out of the answer.
func (f *function) variables() map[string]string {
	all := map[string]string{}
	for _, pair := range f.Env {
		if name, value, ok := strings.Cut(pair, "="); ok && !slices.Contains(ownVariables, name) {
			all[name] = value
		}
	}
	return all
}

// ownVariables are the names that Lambda keeps for itself:
// https://docs.aws.amazon.com/lambda/latest/dg/configuration-envvars.html
var ownVariables = strings.Fields(`_HANDLER _X_AMZN_TRACE_ID AWS_DEFAULT_REGION AWS_REGION AWS_EXECUTION_ENV AWS_LAMBDA_FUNCTION_NAME
	AWS_LAMBDA_FUNCTION_MEMORY_SIZE AWS_LAMBDA_FUNCTION_VERSION AWS_LAMBDA_INITIALIZATION_TYPE AWS_LAMBDA_LOG_GROUP_NAME
	AWS_LAMBDA_LOG_STREAM_NAME AWS_ACCESS_KEY AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN AWS_LAMBDA_RUNTIME_API
	LAMBDA_TASK_ROOT LAMBDA_RUNTIME_DIR`)

func (s *Service) getFunction(r *wire.Request) (any, *wire.Error) {
	f, err := s.named(r)
	if err != nil {
		return nil, err
	}
	answer := map[string]any{"Configuration": f.configuration(), "Code": map[string]any{}}
	if own := f.reserved(); len(own) > 0 {
		answer["Concurrency"] = own
	}
	return answer, nil
}

// reserved is the function's own concurrency, empty when it shares the account's.
func (f *function) reserved() map[string]any {
	if f.Concurrency == accountConcurrency {
		return map[string]any{}
	}
	return map[string]any{"ReservedConcurrentExecutions": f.Concurrency}
}

func (s *Service) getFunctionConcurrency(r *wire.Request) (any, *wire.Error) {
	f, err := s.named(r)
	if err != nil {
		return nil, err
	}
	return f.reserved(), nil
}

func (s *Service) getFunctionConfiguration(r *wire.Request) (any, *wire.Error) {
	f, err := s.named(r)
	if err != nil {
		return nil, err
	}
	return f.configuration(), nil
}

func (s *Service) listFunctions(r *wire.Request) (any, *wire.Error) {
	s.mu.Lock()
	var all []*function
	for _, f := range s.functions {
		if f.Region == r.Region {
			all = append(all, f)
		}
	}
	s.mu.Unlock()
	page, next, err := paged(r, 50, all, func(f *function) string { return f.Name })
	if err != nil {
		return nil, err
	}
	functions := []any{}
	for _, f := range page {
		functions = append(functions, f.configuration())
	}
	return withMarker(map[string]any{"Functions": functions}, next), nil
}

// describe is a mapping as the API shows it.
func (m *mapping) describe() map[string]any {
	d := map[string]any{
		"UUID": m.id, "EventSourceArn": m.Queue, "FunctionArn": m.function.arn(),
		"EventSourceMappingArn":          "arn:aws:lambda:" + m.Region + ":" + wire.Account + ":event-source-mapping:" + m.id,
		"BatchSize":                      m.BatchSize,
		"MaximumBatchingWindowInSeconds": int(math.Ceil(m.Window.Seconds())),
		"State":                          "Enabled", "StateTransitionReason": "USER_INITIATED",
		"LastModified":          float64(m.created.UnixMilli()) / 1000,
		"FunctionResponseTypes": []string{},
	}
	if m.ReportBatchItemFailures {
		d["FunctionResponseTypes"] = []string{"ReportBatchItemFailures"}
	}
	if m.MaximumConcurrency > 0 {
		d["ScalingConfig"] = map[string]any{"MaximumConcurrency": m.MaximumConcurrency}
	}
	return d
}

func (s *Service) getMapping(r *wire.Request) (any, *wire.Error) {
	id := strings.Trim(strings.TrimPrefix(r.URL.Path, mappingsPath), "/")
	s.mu.Lock()
	m := s.mappings[id]
	s.mu.Unlock()
	if m == nil || m.Region != r.Region {
		return nil, &wire.Error{
			Status: http.StatusNotFound, Code: "ResourceNotFoundException",
			Message: "The resource you requested does not exist.",
		}
	}
	return m.describe(), nil
}

func (s *Service) listMappings(r *wire.Request) (any, *wire.Error) {
	query := r.URL.Query()
	var only *function
	if name := query.Get("FunctionName"); name != "" {
		f, err := s.function(r.Region, name)
		if err != nil {
			return nil, err
		}
		only = f
	}
	queue := query.Get("EventSourceArn")
	s.mu.Lock()
	var all []*mapping
	for _, m := range s.mappings {
		if m.Region == r.Region && (only == nil || m.function == only) && (queue == "" || m.Queue == queue) {
			all = append(all, m)
		}
	}
	s.mu.Unlock()
	page, next, err := paged(r, 100, all, func(m *mapping) string { return m.id })
	if err != nil {
		return nil, err
	}
	mappings := []any{}
	for _, m := range page {
		mappings = append(mappings, m.describe())
	}
	return withMarker(map[string]any{"EventSourceMappings": mappings}, next), nil
}

// paged sorts and cuts a list as Marker and MaxItems say. The marker is the name
// of the last item.
func paged[T any](r *wire.Request, limit int, all []T, name func(T) string) (page []T, next string, err *wire.Error) {
	query := r.URL.Query()
	if text := query.Get("MaxItems"); text != "" {
		n, failed := strconv.Atoi(text)
		if failed != nil || n < 1 || n > 10_000 {
			return nil, "", invalid("Value '%s' at 'maxItems' failed to satisfy constraint: Member must have value between 1 and 10000", text)
		}
		limit = min(limit, n)
	}
	slices.SortFunc(all, func(a, b T) int { return strings.Compare(name(a), name(b)) })
	for _, item := range all {
		if name(item) <= query.Get("Marker") {
			continue
		}
		if len(page) == limit {
			return page, name(page[limit-1]), nil
		}
		page = append(page, item)
	}
	return page, "", nil
}

func withMarker(answer map[string]any, next string) map[string]any {
	if next != "" {
		answer["NextMarker"] = next
	}
	return answer
}
