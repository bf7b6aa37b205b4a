import java.util.List;
import java.util.Map;
import org.openapitools.client.ApiClient;
import org.openapitools.client.api.PullApi;
import org.openapitools.client.api.TimersApi;
import org.openapitools.client.model.*;

/**
 * Schedules, reads, cancels, leases and settles through the Java client that openapi-generator made.
 * Arguments: SERVER KEY.
 */
public class Calls {
    private static final String NAMESPACE = "java";

    private static void check(boolean holds, Object result) {
        if (!holds) {
            throw new AssertionError(result);
        }
    }

    private static Timer schedule(TimersApi timers, String id, String delay) throws Exception {
        ScheduleRequest body = new ScheduleRequest().id(id).delay(new DurationOrZero(delay));
        return timers.scheduleTimer(NAMESPACE, body, null);
    }

    public static void main(String[] args) throws Exception {
        ApiClient client = new ApiClient();
        client.updateBaseUri(args[0]);
        client.setRequestInterceptor(call -> call.header("authorization", "Bearer " + args[1]));
        TimersApi timers = new TimersApi(client);
        PullApi pull = new PullApi(client);
        Timer made = schedule(timers, "later", "1h");
        check(made.getState() == State.STATE_SCHEDULED, made);
        Timer found = timers.getTimer(NAMESPACE, "later");
        check(found.getDueAt().equals(made.getDueAt()), found);
        Cancelled cancelled = timers.cancelTimer(NAMESPACE, "later", null, null);
        check(cancelled.getOutcome().equals("cancelled"), cancelled);
        schedule(timers, "now", "0s");
        LeaseRequest lease = new LeaseRequest().wait(new DurationOrZero("20s"));
        Leased leased = pull.lease(NAMESPACE, lease);
        check(leased.getFirings().size() == 1, leased);
        String token = leased.getFirings().get(0).getToken();
        Settlement verdict = new Settlement().token(token).ack(Map.of());
        Settled settled = pull.settle(NAMESPACE, new SettleRequest().settlements(List.of(verdict)));
        check(settled.getResults().get(0).getOutcome() == SettleOutcome.SETTLE_OUTCOME_OK, settled);
        System.out.println(
            "scheduled, read, cancelled, leased and settled through the Java client of openapi-generator");
    }
}
