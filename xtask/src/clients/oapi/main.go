// Schedules, reads, cancels, leases and settles through the client that oapi-codegen made.
//
//	go run . SERVER KEY
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"

	"clients/api"
)

const namespace = "oapi"

func check(holds bool, result any) {
	if !holds {
		panic(fmt.Sprintf("%+v", result))
	}
}

func must[T any](result T, err error) T {
	if err != nil {
		panic(err)
	}
	return result
}

func schedule(ctx context.Context, client *api.ClientWithResponses, id, delay string) *api.Timer {
	var wait api.DurationOrZero
	check(wait.FromDurationOrZero0(delay) == nil, delay)
	body := api.ScheduleRequest{Id: &id, Delay: &wait}
	made := must(client.ScheduleTimerWithResponse(ctx, namespace, nil, body))
	check(made.JSON201 != nil, string(made.Body))
	return made.JSON201
}

func main() {
	ctx := context.Background()
	key := api.WithRequestEditorFn(func(_ context.Context, request *http.Request) error {
		request.Header.Set("authorization", "Bearer "+os.Args[2])
		return nil
	})
	client := must(api.NewClientWithResponses(os.Args[1], key))
	made := schedule(ctx, client, "later", "1h")
	check(made.State == api.STATESCHEDULED, made)
	found := must(client.GetTimerWithResponse(ctx, namespace, "later"))
	check(found.JSON200.DueAt.Equal(made.DueAt), found.JSON200)
	cancelled := must(client.CancelTimerWithResponse(ctx, namespace, "later", nil))
	check(cancelled.JSON200.Outcome == "cancelled", cancelled.JSON200)
	schedule(ctx, client, "now", "0s")
	var wait api.DurationOrZero
	check(wait.FromDurationOrZero0("20s") == nil, wait)
	leased := must(client.LeaseWithResponse(ctx, namespace, api.LeaseRequest{Wait: &wait}))
	check(len(leased.JSON200.Firings) == 1, leased.JSON200)
	verdict := api.Settlement{Token: leased.JSON200.Firings[0].Token, Ack: &api.Ack{}}
	body := api.SettleRequest{Settlements: []api.Settlement{verdict}}
	settled := must(client.SettleWithResponse(ctx, namespace, body))
	check(*settled.JSON200.Results[0].Outcome == api.SETTLEOUTCOMEOK, settled.JSON200)
	fmt.Println("scheduled, read, cancelled, leased and settled through the client of oapi-codegen")
}
