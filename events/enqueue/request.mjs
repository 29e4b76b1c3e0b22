#!/usr/bin/env node
// Asks Expunge to evaluate one tenant now, and prints the id of the run.
//
//   npm install @aws-sdk/client-lambda
//   node request.mjs <function> <policy> <tenant> <request-id> <reason>
//
// The same request id is the same request: sending it again after a lost answer
// is safe. Region and credentials come from the SDK's usual places. The answer
// means that the work is on record, not that it is done.
import { InvokeCommand, LambdaClient } from "@aws-sdk/client-lambda";

const [functionName, policy, tenant, request_id, reason, ...rest] = process.argv.slice(2);
if (!reason || rest.length > 0) {
  console.error("usage: node request.mjs <function> <policy> <tenant> <request-id> <reason>");
  process.exit(2);
}

const answer = await new LambdaClient({}).send(
  new InvokeCommand({
    FunctionName: functionName,
    InvocationType: "RequestResponse",
    Payload: new TextEncoder().encode(JSON.stringify({ policy, tenant, request_id, reason })),
  }),
);
const body = new TextDecoder().decode(answer.Payload);
// Lambda answers 200 for a function that failed; only this field says so.
if (answer.FunctionError) {
  console.error(`refused: ${body}`);
  process.exit(1);
}
console.log(JSON.parse(body).run_id);
