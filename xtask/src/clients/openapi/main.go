// Schedules, reads, cancels, leases and settles through the Go client that openapi-generator made.
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

const namespace = "openapi"

func check(holds bool, result any) {
	if !holds {
		panic(fmt.Sprintf("%+v", result))
	}
}

func must[T any](result *T, response *http.Response, err error) *T {
	if err != nil {
		panic(err)
	}
	return result
}

func schedule(ctx context.Context, client *api.APIClient, id, delay string) *api.Timer {
	body := api.NewScheduleRequest()
	body.SetId(id)
	body.SetDelay(api.StringAsDurationOrZero(&delay))
	call := client.TimersAPI.ScheduleTimer(ctx, namespace).ScheduleRequest(*body)
	return must(call.Execute())
}

func main() {
	ctx := context.WithValue(context.Background(), api.ContextAccessToken, os.Args[2])
	configuration := api.NewConfiguration()
	configuration.Servers = api.ServerConfigurations{{URL: os.Args[1]}}
	client := api.NewAPIClient(configuration)
	made := schedule(ctx, client, "later", "1h")
	check(made.State == api.STATE_SCHEDULED, made)
	found := must(client.TimersAPI.GetTimer(ctx, namespace, "later").Execute())
	check(found.DueAt.Equal(made.DueAt), found)
	cancelled := must(client.TimersAPI.CancelTimer(ctx, namespace, "later").Execute())
	check(cancelled.Outcome == "cancelled", cancelled)
	schedule(ctx, client, "now", "0s")
	wait := "20s"
	lease := api.NewLeaseRequest()
	lease.SetWait(api.StringAsDurationOrZero(&wait))
	leased := must(client.PullAPI.Lease(ctx, namespace).LeaseRequest(*lease).Execute())
	check(len(leased.Firings) == 1, leased)
	verdict := api.NewSettlement(leased.Firings[0].Token)
	verdict.SetAck(map[string]interface{}{})
	body := api.NewSettleRequest([]api.Settlement{*verdict})
	settled := must(client.PullAPI.Settle(ctx, namespace).SettleRequest(*body).Execute())
	check(settled.Results[0].GetOutcome() == api.SETTLE_OUTCOME_OK, settled)
	fmt.Println("scheduled, read, cancelled, leased and settled through the Go client of openapi-generator")
}
