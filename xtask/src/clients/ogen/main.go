// Schedules, reads, cancels, leases and settles through the client that ogen made.
//
//	go run . SERVER KEY
package main

import (
	"context"
	"fmt"
	"os"

	"clients/api"
)

const namespace = "ogen"

type key string

func (key key) ApiKey(context.Context, api.OperationName) (api.ApiKey, error) {
	return api.ApiKey{Token: string(key)}, nil
}

// must returns the response of this type.
func must[T any](result any, err error) T {
	if err != nil {
		panic(err)
	}
	expected, holds := result.(T)
	check(holds, result)
	return expected
}

func check(holds bool, result any) {
	if !holds {
		panic(fmt.Sprintf("%+v", result))
	}
}

func wait(text string) api.OptDurationOrZero {
	return api.NewOptDurationOrZero(api.NewStringDurationOrZero(text))
}

func schedule(ctx context.Context, client *api.Client, id, delay string) api.Timer {
	body := api.ScheduleRequest{ID: api.NewOptString(id), Delay: wait(delay)}
	params := api.ScheduleTimerParams{Namespace: namespace}
	return api.Timer(*must[*api.ScheduleTimerCreated](client.ScheduleTimer(ctx, &body, params)))
}

func main() {
	ctx := context.Background()
	client, err := api.NewClient(os.Args[1], key(os.Args[2]))
	check(err == nil, err)
	made := schedule(ctx, client, "later", "1h")
	check(made.State == api.StateScheduled, made)
	one := api.GetTimerParams{Namespace: namespace, ID: "later"}
	found := must[*api.Timer](client.GetTimer(ctx, one))
	check(found.DueAt == made.DueAt, found)
	cancel := api.CancelTimerParams{Namespace: namespace, ID: "later"}
	cancelled := must[*api.CancelTimerOK](client.CancelTimer(ctx, cancel))
	check(cancelled.Outcome == "cancelled", cancelled)
	schedule(ctx, client, "now", "0s")
	lease := api.LeaseRequest{Wait: wait("20s")}
	leased := must[*api.Leased](client.Lease(ctx, &lease, api.LeaseParams{Namespace: namespace}))
	check(len(leased.Firings) == 1, leased)
	verdict := api.Settlement{Token: leased.Firings[0].Token, Ack: &api.Ack{}}
	body := api.SettleRequest{Settlements: []api.Settlement{verdict}}
	settled := must[*api.Settled](client.Settle(ctx, &body, api.SettleParams{Namespace: namespace}))
	check(settled.Results[0].Outcome.Value == api.SettleOutcomeOk, settled)
	fmt.Println("scheduled, read, cancelled, leased and settled through the client of ogen")
}
